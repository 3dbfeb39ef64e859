// Counts words in threads: each has a table of its own, and all are joined at the end.
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

int main() {
    constexpr int threads = 8, words = 150000;
    std::vector<std::unordered_map<std::string, long>> tables(threads);
    std::vector<std::thread> running;
    for (int t = 0; t < threads; t++)
        running.emplace_back([&table = tables[t], t] {
            for (int i = 0; i < words; i++)
                table["a word that is longer than a small string " + std::to_string(i * threads + t % 3)] += i;
        });
    for (auto &thread : running)
        thread.join();
    std::unordered_map<std::string, long> all;
    for (auto &table : tables) {
        for (auto &[word, count] : table)
            all[word] += count;
        table.clear();
    }
    std::printf("%zu\n", all.size());
}
