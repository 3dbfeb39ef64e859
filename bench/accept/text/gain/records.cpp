// Work for a compiler: COUNT kinds of a record, each with containers, sorting and hashing of its own, all of
// which are instantiated and optimised.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#ifndef COUNT
#define COUNT 1
#endif

template <int N> struct Record {
    std::array<double, N> values{};
    std::string name;
    std::map<std::string, std::array<int, N>> index;
    auto key() const { return std::tie(name, values, index); }
    bool operator<(const Record &other) const { return key() < other.key(); }
    bool operator==(const Record &other) const { return key() == other.key(); }
};

template <int N> double weigh(std::vector<Record<N>> all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::unordered_map<std::string, std::vector<Record<N>>> groups;
    for (const auto &record : all)
        groups[record.name].push_back(record);
    double sum = 0;
    for (auto &[name, group] : groups) {
        std::stable_sort(group.rbegin(), group.rend());
        const auto &values = group.front().values;
        sum += std::accumulate(values.begin(), values.end(), double(name.size()));
    }
    return sum;
}

template <int... N> double every(std::integer_sequence<int, N...>) {
    return (0.0 + ... + weigh<N + 1>(std::vector<Record<N + 1>>(N + 2)));
}

int main() { return every(std::make_integer_sequence<int, COUNT>()) > 0; }
