// A heavy translation unit for `g++ -O2 -c`: standard templates that instantiate much code.
#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace heavy {

template <int N> struct Record {
    std::array<double, N> values{};
    std::string name;
    std::map<std::string, std::vector<int>> index;
    auto key() const { return std::tie(name, values, index); }
    bool operator<(const Record &other) const { return key() < other.key(); }
    bool operator==(const Record &other) const { return key() == other.key(); }
};

std::vector<std::string> tokens(const std::string &text) {
    static const std::regex word(R"([A-Za-z_]\w*|\d+|"[^"]*")");
    std::vector<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
        found.push_back(at->str());
    return found;
}

template <int N> std::optional<Record<N>> best(std::vector<Record<N>> &all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.empty())
        return std::nullopt;
    return *std::max_element(all.begin(), all.end());
}

template <int N> double weigh(const std::vector<Record<N>> &all) {
    std::unordered_map<std::string, double> by_name;
    for (const auto &record : all)
        by_name[record.name] += std::accumulate(record.values.begin(), record.values.end(), 0.0);
    return by_name.empty() ? 0.0 : by_name.begin()->second;
}

template <int... N> double every(std::integer_sequence<int, N...>) {
    double total = 0;
    ((total += [] {
         std::vector<Record<N + 1>> all(N + 2);
         auto one = best<N + 1>(all);
         return weigh<N + 1>(all) + (one ? one->values[0] : 0.0);
     }()),
     ...);
    return total;
}

} // namespace heavy

int main(int argc, char **argv) {
    std::ostringstream out;
    for (int i = 0; i < argc; i++)
        for (const auto &token : heavy::tokens(argv[i]))
            out << token << ',';
    std::cout << heavy::every(std::make_integer_sequence<int, 1>()) << out.str() << '\n';
}
