"""Programs beside those of tune/answers: name, needed program, command in the input directory."""

ROWS = [
    ("grep", "grep", ["grep", "-c", "-E", "[a-z]+e[rt]+or", "text-8m.txt"]),
    ("sed", "sed", ["sed", "-n", "s/error/fault/p", "text-8m.txt"]),
    ("tr", "sort", ["sort", "-u", "text-8m.txt"]),
    ("base64", "base64", ["base64", "text.txt"]),
    ("bzip2", "bzip2", ["bzip2", "-1", "-c", "unit.c"]),
    ("md5", "md5sum", ["md5sum", "text.txt"]),
    ("python-sort", "python3", ["python3", "-c", "print(len(sorted(str(i * 7919 % 100003) for i in range(200000))))"]),
    ("python-json", "python3", ["python3", "-c", "import json; print(len(json.dumps([{str(i): i} for i in range(100000)])))"]),
    ("python-re", "python3", ["python3", "-c", "import re; print(len(re.findall('a.b', 'xaabxacb' * 100000)))"]),
    ("perl-sort", "perl", ["perl", "-e", "print scalar(sort map {$_ * 7919 % 100003} 1..150000)"]),
    ("perl-regex", "perl", ["perl", "-ne", "$n++ while /er+or/g; END {print $n}", "text-8m.txt"]),
    ("lua-concat", "lua5.4", ["lua5.4", "-e", "t = {} for i = 1, 400000 do t[i] = 'k' .. i end print(#table.concat(t))"]),
    ("gawk-split", "gawk", ["gawk", "{n += split($0, a, \" \")} END {print n}", "text-8m.txt"]),
    ("ruby-sort", "ruby", ["ruby", "-e", "puts (1..300000).map {|i| (i * 7919 % 100003).to_s}.sort.size"]),
    ("php-sort", "php", ["php", "-r", "$a = []; for ($i = 0; $i < 400000; $i++) $a[] = $i * 7919 % 100003; sort($a); echo count($a);"]),
    ("xz", "xz", ["xz", "-0", "-T1", "-c", "text-8m.txt"]),
    ("gcc-asm", "gcc", ["gcc", "-O1", "-S", "-o", "/dev/null", "unit.c"]),
    ("git-log", "git", ["git", "-C", "history", "log", "--stat", "-n", "300"]),
    ("sqlite-group", "sqlite3", ["sqlite3", ":memory:", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300000) SELECT count(*) FROM (SELECT x % 1000 k, sum(x) FROM c GROUP BY k)"]),
    ("jq-map", "jq", ["jq", "-c", "[.. | numbers] | add", "records-4m.json"]),
]
# With several busy threads or processes.
SEVERAL = [
    ("zstd-T2", "zstd", ["zstd", "-6", "-T2", "-c", "text.txt"]),
    ("xz-T2", "xz", ["xz", "-0", "-T2", "--block-size=1MiB", "-c", "text-8m.txt"]),
    ("java", "javap", ["javap", "-c", "-p", "java.lang.String", "java.util.HashMap", "java.util.concurrent.ConcurrentHashMap"]),
    ("go", "gofmt", ["sh", "-c", "gofmt -l \"$(go env GOROOT)/src/net\""]),
]
