// Exceptions across frames of a program with 7 MiB of code: thrown, caught, thrown again, counted.
#include <cstdio>
#include <stdexcept>
#include <string>

__asm__(".text\n.fill 7340032, 1, 0x5a\n");

static int depth(int left) {
    if (left == 0)
        throw std::runtime_error("the bottom");
    try {
        return depth(left - 1) + 1;
    } catch (const std::runtime_error &error) {
        if (left % 2 == 0)
            throw;
        throw std::runtime_error(std::string(error.what()) + " " + std::to_string(left));
    }
}

int main() {
    for (int round = 0; round < 20; round++) {
        try {
            depth(round);
        } catch (const std::exception &error) {
            std::printf("%d %s\n", round, error.what());
        }
    }
    return 8;
}
