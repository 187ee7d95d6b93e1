// Sliding-window rate limit of one socket. The counts of the window are kept in steps of a 64th of it;
// a message counts from the start of its step on, so the limit is met early by a step at most, never
// late. Must never hold more than its struct.
#include "gateway/jupyter_rate.h"

#include "gateway/jupyter_json.h"

#include <stdio.h>

static void reset(struct jup_rate *r) { *r = (struct jup_rate){.newest = r->newest}; }

// Forgets what has left the window.
static void move_to(struct jup_rate *r, int64_t step)
{
    if (step - r->newest >= JUP_RATE_STEPS) {
        for (int i = 0; i < JUP_RATE_STEPS; i++)
            r->step[i].msgs = r->step[i].bytes = 0;
        r->msgs = r->bytes = 0;
        r->newest = step;
    }
    while (r->newest < step) {
        int at = (int)(++r->newest % JUP_RATE_STEPS);
        r->msgs -= r->step[at].msgs;
        r->bytes -= r->step[at].bytes;
        r->step[at].msgs = r->step[at].bytes = 0;
    }
}

// Whether count in the window is over limit a second; *exceeded remembers. True when it just became so.
static bool check(bool *exceeded, uint64_t count, int limit, int64_t window_ms)
{
    uint64_t allowed = (uint64_t)limit * (uint64_t)window_ms, have = count * 1000;
    if (!limit)
        return false;
    if (have > allowed) {
        bool news = !*exceeded;
        *exceeded = true;
        return news;
    }
    if (*exceeded && have < allowed / 10 * 8)
        *exceeded = false;
    return false;
}

static bool is_idle(struct ck_slice content)
{
    struct ck_slice state = ck_slice("", 0);
    return jup_json_member(content, "execution_state", &state) && ck_slice_is(state, "\"idle\"");
}

enum jup_rate_verdict jup_rate_take(struct jup_rate *r, const struct jup_rate_limits *l, int64_t now_ms, const char *type,
                                    struct ck_slice content, uint64_t bytes)
{
    if (!strcmp(type, "status")) {
        if (is_idle(content))
            reset(r);
        return JUP_RATE_PASS;
    }
    if (!strcmp(type, "comm_open") || !strcmp(type, "execute_input"))
        return JUP_RATE_PASS;
    uint64_t counted = !strcmp(type, "stream") ? bytes : 0;
    move_to(r, now_ms * JUP_RATE_STEPS / l->window_ms);
    bool tell_msgs = check(&r->msgs_exceeded, r->msgs + 1, l->msgs, l->window_ms);
    bool tell_bytes = check(&r->bytes_exceeded, r->bytes + counted, l->bytes, l->window_ms);
    if (r->msgs_exceeded || r->bytes_exceeded) // what is not sent does not count
        return tell_msgs ? JUP_RATE_TELL_MSGS : tell_bytes ? JUP_RATE_TELL_BYTES : JUP_RATE_DROP;
    int at = (int)(r->newest % JUP_RATE_STEPS);
    r->step[at].msgs++;
    r->step[at].bytes += counted;
    r->msgs++;
    r->bytes += counted;
    return JUP_RATE_PASS;
}

void jup_rate_text(char *out, size_t room, enum jup_rate_verdict verdict, const struct jup_rate_limits *l)
{
    bool msgs = verdict == JUP_RATE_TELL_MSGS;
    snprintf(out, room,
             "IOPub %s rate exceeded.\nOutput of this cell is left out until it comes more slowly, because this gateway "
             "was started with\n--iopub-%s-rate-limit=%d (%s a second) over --rate-limit-window=%lld (seconds).\n",
             msgs ? "message" : "data", msgs ? "msg" : "data", msgs ? l->msgs : l->bytes, msgs ? "messages" : "bytes",
             (long long)(l->window_ms / 1000));
}
