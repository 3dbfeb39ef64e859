/* Variables of 1 KiB, of which one in eight is touched: the first of each row, row by row. */
#define ROW(r)                                                                                        \
    int hot_##r[256] = {1};                                                                           \
    int a_##r[256] = {1}, b_##r[256] = {1}, c_##r[256] = {1}, d_##r[256] = {1}, e_##r[256] = {1},     \
        f_##r[256] = {1}, g_##r[256] = {1};

#define ROWS(do)                                                                                      \
    do(00) do(01) do(02) do(03) do(04) do(05) do(06) do(07) do(08) do(09) do(10) do(11) do(12) do(13) \
    do(14) do(15) do(16) do(17) do(18) do(19) do(20) do(21) do(22) do(23) do(24) do(25) do(26) do(27) \
    do(28) do(29) do(30) do(31)

ROWS(ROW)

#define TOUCH(r) *(volatile int *)hot_##r += 1;
#define NEVER(r) sum += a_##r[n] + b_##r[n];

int never(int n) {
    int sum = 0;
    ROWS(NEVER)
    return sum;
}

int main(void) {
    ROWS(TOUCH)
    return 0;
}
