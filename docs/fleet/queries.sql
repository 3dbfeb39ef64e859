-- Ten questions to the lines of `pagewise merge --ndjson fleet.ndjson`, for DuckDB:
--     duckdb -c ".read docs/fleet/queries.sql"
-- A line is a session: hosts are counted once, medians are over sessions.
-- The columns are given, because detecting them opens the file twice and may guess another type for an empty one.
CREATE OR REPLACE VIEW arms AS
SELECT * FROM read_json('fleet.ndjson', format = 'newline_delimited', columns = {
    schema: 'INTEGER', host: 'VARCHAR', run: 'VARCHAR', started_unix_ns: 'BIGINT', pagewise: 'VARCHAR',
    command: 'VARCHAR', arm: 'VARCHAR', cpu_model: 'VARCHAR', kernel: 'VARCHAR', thp: 'VARCHAR', cpus: 'INTEGER',
    memory_bytes: 'BIGINT', quantity: 'VARCHAR', word: 'VARCHAR', ratio: 'DOUBLE', low: 'DOUBLE', high: 'DOUBLE',
    runs: 'INTEGER' });

-- 1: Which arm gains most, by the median host?
SELECT command, arm, count(DISTINCT host) AS hosts, round(100 * (1 - median(ratio)), 1) AS gain_percent
FROM arms WHERE word <> 'reject' GROUP BY command, arm ORDER BY gain_percent DESC;

-- 2: How many hosts say what?
SELECT command, arm, word, count(DISTINCT host) AS hosts FROM arms GROUP BY command, arm, word ORDER BY command, arm, hosts DESC;

-- 3: Does the gain depend on the processor?
SELECT arm, cpu_model, count(DISTINCT host) AS hosts, round(100 * (1 - median(ratio)), 1) AS gain_percent
FROM arms WHERE word <> 'reject' GROUP BY arm, cpu_model ORDER BY arm, gain_percent DESC;

-- 4: Does it depend on the kernel?
SELECT arm, kernel, count(DISTINCT host) AS hosts, round(100 * (1 - median(ratio)), 1) AS gain_percent
FROM arms WHERE word <> 'reject' GROUP BY arm, kernel ORDER BY arm, kernel;

-- 5: Does it depend on the setting of transparent huge pages?
SELECT arm, thp, count(DISTINCT host) AS hosts, round(100 * (1 - median(ratio)), 1) AS gain_percent
FROM arms WHERE word <> 'reject' GROUP BY arm, thp ORDER BY arm, thp;

-- 6: On which hosts is it proven slower, or was it rejected?
SELECT host, command, arm, word, round(100 * (ratio - 1), 1) AS loss_percent
FROM arms WHERE word IN ('slower', 'reject') ORDER BY host, arm;

-- 7: Which hosts have no answer yet?
SELECT host, command, arm, runs FROM arms WHERE word IN ('cannot_tell', 'likely') ORDER BY runs;

-- 8: Which hosts are furthest from the others?
SELECT host, arm, round(ratio, 3) AS ratio, round(ln(ratio) - median(ln(ratio)) OVER (PARTITION BY command, arm), 3) AS off
FROM arms WHERE word <> 'reject' ORDER BY abs(off) DESC LIMIT 20;

-- 9: How wide are the intervals, and how many runs did they take?
SELECT arm, count(DISTINCT host) AS hosts, round(100 * median(high - low), 1) AS width_percent, median(runs) AS runs
FROM arms WHERE high < 10 GROUP BY arm ORDER BY arm;

-- 10: How much CPU is to be had: hosts whose interval lies below 1, with their CPUs?
SELECT arm, sum(cpus) AS cpus, round(sum(cpus * (1 - ratio)), 1) AS cpus_saved
FROM (SELECT command, arm, host, max(cpus) AS cpus, median(ratio) AS ratio FROM arms WHERE high < 1 GROUP BY ALL)
GROUP BY arm ORDER BY cpus_saved DESC;
