// Fills a table and walks it at random: `table_walk MIB STEPS`. Prints a checksum of every load.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func number(text string) uint64 {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: table_walk MIB STEPS")
		os.Exit(2)
	}
	mib, steps := number(os.Args[1]), number(os.Args[2])
	if mib == 0 || mib&(mib-1) != 0 || mib > 1024 {
		fmt.Fprintln(os.Stderr, "MIB must be a power of two up to 1024")
		os.Exit(2)
	}
	table := make([]uint64, mib<<20/8)
	for i := range table {
		table[i] = uint64(i)*2654435761 + 1
	}
	mask := uint64(len(table) - 1)
	state := uint64(88172645463325252)
	for i := uint64(0); i < steps; i++ {
		state = state*6364136223846793005 + table[(state>>20)&mask]
	}
	fmt.Printf("%016x\n", state)
}
