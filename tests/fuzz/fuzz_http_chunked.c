// Any bytes as a chunked body: in one piece and byte by byte must come to the same end with the same
// body, and never give out more than came in.
#include "gateway/http_chunked.h"

#include <stdbool.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int rc;
    size_t used, n;
    uint64_t sum;
};

static struct result decode(const uint8_t *data, size_t size, size_t step)
{
    struct http_chunked c = {0};
    struct result r = {0, 0, 0, 5381};
    while (r.used < size && r.rc >= 0 && r.rc != 2) {
        struct ck_slice piece;
        size_t take = size - r.used < step ? size - r.used : step, used = 0;
        r.rc = http_chunked_feed(&c, data + r.used, take, &used, &piece, NULL);
        if (used > take || (!used && r.rc >= 0 && r.rc != 2))
            abort();
        r.used += used;
        r.n += piece.n;
        for (size_t i = 0; i < piece.n; i++)
            r.sum = r.sum * 33 + piece.p[i];
    }
    if (r.rc == 1)
        r.rc = 0;
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct result whole = decode(data, size, size + 1), bytes = decode(data, size, 1);
    bool same = whole.rc == bytes.rc && whole.used == bytes.used && whole.n == bytes.n && whole.sum == bytes.sum;
    if (!same || whole.n > size)
        abort();
    return 0;
}
