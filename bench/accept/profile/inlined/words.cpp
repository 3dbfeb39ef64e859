/* Counts words by chance in containers of the standard library, then sorts them. words COUNT */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct Word {
    std::string text;
    unsigned count = 0;
    bool operator<(const Word &other) const { return std::tie(other.count, text) < std::tie(count, other.text); }
};

template <typename Source> std::string spelled(Source &source) {
    std::uniform_int_distribution<int> length(2, 9), letter('a', 'p');
    std::string text(length(source), ' ');
    std::generate(text.begin(), text.end(), [&] { return static_cast<char>(letter(source)); });
    return text;
}

class Counter {
    std::unordered_map<std::string, unsigned> words;
    std::map<std::size_t, std::set<std::string>> by_length;
    std::vector<std::shared_ptr<Word>> shared;

public:
    void add(const std::string &text) {
        if (++words[text] == 1) {
            by_length[text.size()].insert(text);
            shared.push_back(std::make_shared<Word>(Word{text}));
        }
    }

    std::vector<Word> sorted() const {
        std::vector<Word> all;
        for (const auto &[text, count] : words)
            all.push_back({text, count});
        std::sort(all.begin(), all.end());
        return all;
    }

    std::size_t letters() const {
        return std::accumulate(by_length.begin(), by_length.end(), std::size_t(0),
                               [](auto sum, const auto &one) { return sum + one.first * one.second.size(); });
    }

    std::size_t alike(const char *pattern) const {
        std::regex expression(pattern);
        std::size_t found = 0;
        for (std::size_t i = 0; i < shared.size() && i < 2000; i++)
            found += std::regex_search(shared[i]->text, expression);
        return found;
    }
};

} // namespace

int main(int argc, char **argv) {
    long count = argc > 1 ? std::atol(argv[1]) : 100000;
    std::mt19937_64 source(1);
    Counter counter;
    for (long i = 0; i < count; i++)
        counter.add(spelled(source));
    std::ostringstream out;
    auto all = counter.sorted();
    for (std::size_t i = 0; i < all.size() && i < 5; i++)
        out << all[i].text << ' ' << all[i].count << '\n';
    out << counter.letters() << ' ' << counter.alike("a[b-e]+f?") << '\n';
    std::fputs(out.str().c_str(), stdout);
    return 0;
}
