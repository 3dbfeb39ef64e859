"""Holds memory that five functions have made, "NAME BYTES" for each: sites.py"""

import array

MIB = 1 << 20


def fills_a_table(count):
    return bytearray(b"x") * count


def counts_numbers(count):
    return array.array("q", range(count // 8))


def repeats_text(count):
    return "sixteen letters " * (count // 16)


def lists_texts(count):
    return [b"n" * (nth % 7 + 990) for nth in range(count // 1036)]


def joins_blocks(count):
    return b"".join([b"block of 32 bytes, thirty two b\n"] * (count // 32))


def main():
    held = [
        fills_a_table(48 * MIB),
        counts_numbers(32 * MIB),
        repeats_text(20 * MIB),
        lists_texts(12 * MIB),
        joins_blocks(8 * MIB),
    ]
    print(f"fills_a_table {48 * MIB}\ncounts_numbers {32 * MIB}\nrepeats_text {20 * MIB}")
    print(f"lists_texts {12 * MIB}\njoins_blocks {8 * MIB}", flush=True)
    return held


main()
