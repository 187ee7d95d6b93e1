// Models of the Jupyter REST API, built from the registry's records. Pure; nothing here may show
// more of a session than the API's own fields.
#include "gateway/jupyter_model.h"

#include "common/ck_time.h"

#include <assert.h>
#include <string.h>

const char *jup_execution_state(enum session_state s)
{
    static const char *const names[] = {
        [SESSION_STARTING] = "starting", [SESSION_IDLE] = "idle", [SESSION_BUSY] = "busy",
        [SESSION_PAUSED] = "idle",       [SESSION_DEAD] = "dead",
    };
    static_assert(sizeof names / sizeof *names == SESSION_DEAD + 1, "one name a state");
    return names[s];
}

bool jup_kernel_name_known(const char *name)
{
    // "python" is what thebe and old clients ask for; jupyter_client resolves it the same way.
    return !strcmp(name, JUP_KERNEL_NAME) || !strcmp(name, "python");
}

json_t *jup_kernel_model(const struct session *s)
{
    char at[CK_ISO8601_MAX];
    ck_iso8601_us(s->last_activity_us, at);
    json_t *m = json_pack("{s:s,s:s,s:s,s:s,s:i}", "id", s->id, "name", JUP_KERNEL_NAME, "last_activity", at,
                          "execution_state", jup_execution_state(s->state), "connections", s->connections);
    if (m && s->state == SESSION_DEAD && s->reason)
        json_object_set_new(m, "reason", json_string(s->reason));
    return m;
}

json_t *jup_session_model(const struct jsession *j, const struct session *kernel)
{
    json_t *m = json_pack("{s:s,s:s,s:s,s:s,s:o}", "id", j->id, "path", j->path, "name", j->name, "type", j->type,
                          "kernel", jup_kernel_model(kernel));
    // Clients of the kernel gateway still read the older form.
    if (m && !strcmp(j->type, "notebook"))
        json_object_set_new(m, "notebook", json_pack("{s:s,s:s}", "path", j->path, "name", j->name));
    return m;
}

json_t *jup_spec_model(void)
{
    return json_pack("{s:s,s:{s:[s,s,s,s,s],s:s,s:s,s:{},s:s,s:{}},s:{}}", "name", JUP_KERNEL_NAME, "spec", "argv",
                     "python3", "-m", "ipykernel_launcher", "-f", "{connection_file}", "display_name",
                     "Python 3 (ipykernel)", "language", "python", "env", "interrupt_mode", "signal", "metadata",
                     "resources");
}
