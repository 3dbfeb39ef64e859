# A Rack application for puma: each request makes a report of 20,000 rows of text and keeps nothing.
app = lambda do |env|
  rows = Array.new(20_000) { |at| ["row #{at}", "name of the row #{at} " * 4, "#{at * 37 % 1000}.00"] }
  body = rows.map { |row| row.join(";") }.join("\n")
  [200, { "Content-Type" => "text/csv", "Content-Length" => body.bytesize.to_s }, [body]]
end

run app
