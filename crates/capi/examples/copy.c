/* Copies standard input to standard output, whatever they are, and says how.
 *
 *     cc -O2 -I include examples/copy.c -L DIRECTORY -lpagewise_capi -o copy
 *     ./copy < file | ./copy > other
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "pagewise.h"

int main(void) {
    pagewise_copied copied;

    if (pagewise_abi_version() != PAGEWISE_ABI_VERSION) {
        fprintf(stderr, "copy: compiled for another version of the library\n");
        return 2;
    }
    /* A reader that is gone is an error of the copy, not the end of this program. */
    signal(SIGPIPE, SIG_IGN);
    if (pagewise_copy(0, 1, PAGEWISE_NO_LIMIT, 0, &copied) < 0) {
        fprintf(stderr, "copy: %s\n", pagewise_error_message());
        return copied.side == PAGEWISE_SOURCE ? 3 : 4;
    }
    fprintf(stderr, "%" PRIu64 " bytes by %s\n", copied.bytes, copied.way);
    return 0;
}
