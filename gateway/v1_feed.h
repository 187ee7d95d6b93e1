// Messages that a client may send on WS /v1/sessions/{id}/stream. Pure.
#pragma once
#include "gateway/v1_body.h"

enum v1_feed_verb { V1_FEED_EXECUTE, V1_FEED_STDIN, V1_FEED_CANCEL, V1_FEED_INTERRUPT };

struct v1_feed_message {
    enum v1_feed_verb verb;
    json_t *body;               // owned; what the strings point into
    const char *ref;            // the client's own mark, repeated in the answer; NULL when absent
    const char *cell;           // stdin, cancel
    const char *value;          // stdin
    struct v1_cell_body execute; // execute
};

// {"type":"execute","code",...} | {"type":"stdin","cell","value"|"eof"} | {"type":"cancel","cell"} |
// {"type":"interrupt"}, each with an optional "ref" of at most 200 bytes.
int v1_feed_message_parse(struct ck_slice json, struct v1_feed_message *out, struct ck_err *err);
void v1_feed_message_free(struct v1_feed_message *m);
