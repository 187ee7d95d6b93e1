// Any bytes as a path, a header or a body of a /v1 request. The first byte says which. What is
// accepted must keep what its header promises.
#include "gateway/v1_body.h"
#include "gateway/v1_feed.h"
#include "gateway/v1_mime.h"
#include "gateway/v1_path.h"
#include "gateway/v1_range.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void path(const char *text)
{
    char out[V1_PATH_MAX], again[V1_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    for (int body = 0; body < 2; body++) {
        if (body ? v1_path_from_body(text, out, &err) : v1_path_from_url(text, out, &err))
            continue;
        // Absolute, no empty or dot component, and clean again when cleaned again.
        if (out[0] != '/' || strstr(out, "//") || strstr(out, "/../") || v1_path_from_url(out, again, &err) ||
            strcmp(out, again))
            abort();
    }
}

static void headers(const char *text)
{
    static const uint64_t sizes[] = {0, 1, 1000, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct v1_range r = v1_range_parse(text, sizes[i]);
        if (r.kind == V1_RANGE_PART && (!r.length || r.first >= sizes[i] || r.length > sizes[i] - r.first))
            abort();
    }
    v1_etag_listed(text, "abc", true);
    v1_http_date_parse(text);
    char type[V1_MIME_MAX], etag[64];
    v1_mime_header(text, type);
    v1_etag_clean(text, etag, sizeof etag);
    struct ck_buf b = CK_BUF_INIT;
    if (!v1_disposition(true, text, &b) && (memchr(b.p, '\r', b.n) || memchr(b.p, '\n', b.n)))
        abort();
    ck_buf_free(&b);
    if (strpbrk(type, "\r\n\"") || strpbrk(etag, "\r\n\"\\"))
        abort();
}

static void bodies(uint8_t which, struct ck_slice s)
{
    struct ck_err err = CK_ERR_INIT;
    struct v1_session_body session;
    struct v1_cell_body cell;
    struct v1_command_body command;
    struct v1_feed_message message;
    json_t *body = NULL;
    int rc = 0;
    switch (which % 6) {
    case 0:
    case 1:
        rc = v1_session_body_parse(s, which % 6, &session, &err);
        v1_session_body_free(&session);
        break;
    case 2:
        rc = v1_cell_body_parse(s, &cell, &err);
        v1_cell_body_free(&cell);
        break;
    case 3:
        rc = v1_command_body_parse(s, 30000, &command, &err);
        v1_command_body_free(&command);
        break;
    case 4:
        rc = v1_stdin_body_parse(s, &body, &err) ? 0 : -1;
        json_decref(body);
        break;
    default:
        rc = v1_feed_message_parse(s, &message, &err);
        v1_feed_message_free(&message);
        break;
    }
    if ((rc != 0) != (err.status != 0)) // an error is told, a success is not
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] < 40)
        path(text);
    else if (data[0] < 80)
        headers(text);
    else
        bodies(data[0], ck_slice(data + 1, size - 1));
    free(text);
    return 0;
}
