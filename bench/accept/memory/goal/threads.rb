# Sixteen threads, each of which splits lines into words, joins them again, and keeps nothing.
lines = File.readlines(ARGV[0], chomp: true)
threads = Array.new(16) do
  Thread.new do
    Array.new(2) do
      rows = lines.map { |line| line.split.map { |word| word * 20 } }
      rows.sum { |row| row.join("-").size }
    end.sum
  end
end
puts threads.sum(&:value)
