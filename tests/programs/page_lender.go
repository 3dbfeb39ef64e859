// The writer of page_lender.c in Go: it lends its pages by a raw call and uses them again by the
// pipe's capacity, which it asks once.
package main

import (
	"os"
	"syscall"
	"unsafe"
)

const total = 64 << 20

type piece struct {
	base   *byte
	length uint64
}

func main() {
	size, _, failed := syscall.Syscall(syscall.SYS_FCNTL, 1, 1032, 0)
	if failed != 0 {
		os.Exit(2)
	}
	var buffers [2][]byte
	for i := range buffers {
		buffers[i], _ = syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON)
	}
	next := uint64(0)
	for written, turn := 0, 0; written < total; written, turn = written+int(size), turn^1 {
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&buffers[turn][0])), int(size)/8)
		for at := range words {
			words[at] = next
			next++
		}
		for done := 0; done < int(size); {
			one := piece{&buffers[turn][done], uint64(int(size) - done)}
			lent, _, failed := syscall.Syscall6(syscall.SYS_VMSPLICE, 1,
				uintptr(unsafe.Pointer(&one)), 1, 0, 0, 0)
			if failed != 0 {
				os.Exit(3)
			}
			done += int(lent)
		}
	}
}
