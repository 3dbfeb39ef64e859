/* Holds memory in containers that five functions fill, "NAME BYTES" for each: sites */
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#define SITE __attribute__((noinline))
constexpr std::size_t MIB = 1 << 20;

struct Held {
    std::vector<double> samples;
    std::string text;
    std::list<std::string> names;
    std::unique_ptr<char[]> table;
    std::deque<long> queue;
};

SITE void reserves_samples(Held &held, std::size_t bytes) {
    held.samples.assign(bytes / sizeof(double), 1.5);
}

SITE void appends_text(Held &held, std::size_t bytes) {
    held.text.reserve(bytes);
    while (held.text.size() + 16 <= bytes)
        held.text.append("sixteen letters ");
}

SITE void lists_names(Held &held, std::size_t bytes) {
    const std::string name(407, 'n');
    for (std::size_t i = 0; i < bytes / (407 + 1 + 48); i++)
        held.names.push_back(name);
}

SITE void makes_a_table(Held &held, std::size_t bytes) {
    held.table = std::make_unique<char[]>(bytes);
}

SITE void queues_numbers(Held &held, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / sizeof(long); i++)
        held.queue.push_back(static_cast<long>(i));
}

int main() {
    Held held;
    reserves_samples(held, 48 * MIB);
    appends_text(held, 32 * MIB);
    makes_a_table(held, 20 * MIB);
    lists_names(held, 12 * MIB);
    queues_numbers(held, 8 * MIB);
    std::puts("reserves_samples 50331648\nappends_text 33554432\nmakes_a_table 20971520\nlists_names 12582912\nqueues_numbers 8388608");
    return held.samples.empty() || held.queue.empty() || held.names.empty();
}
