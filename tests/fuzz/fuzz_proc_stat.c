// /proc/PID/stat with a name that a hostile process chose.
#include "common/ck_proc.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 200), state = 0;
    uint64_t start = 0;
    memcpy(text, data, size);
    text[size] = 0;
    (void)ck_proc_parse_stat(text, &start, &state);
    // Whatever comes before it, a true tail is found as long as the name is what the kernel wrote.
    size_t n = strlen(text);
    strcpy(text + n, ") S 1 1 1 0 -1 4194560 100 200 0 0 5 6 0 0 20 0 1 0 987654 1000");
    if (ck_proc_parse_stat(text, &start, &state) || start != 987654 || state != 'S')
        abort();
    free(text);
    return 0;
}
