// Handlers of the Jupyter REST API, one a route of jupyter_routes.c. Loop thread.
#pragma once
#include "gateway/http.h"
#include "gateway/jupyter_model.h"
#include "gateway/serve.h"

// Kernels (jupyter_kernels.c)
void jup_kernels_list(struct http_req *r);
void jup_kernels_create(struct http_req *r);
void jup_kernel_get(struct http_req *r);
void jup_kernel_delete(struct http_req *r);
void jup_kernel_interrupt(struct http_req *r);
void jup_kernel_restart(struct http_req *r);

// Sessions (jupyter_sessions.c)
void jup_sessions_list(struct http_req *r);
void jup_sessions_create(struct http_req *r);
void jup_session_get(struct http_req *r);
void jup_session_patch(struct http_req *r);
void jup_session_delete(struct http_req *r);

// WebSockets (jupyter_socket.c, jupyter_routes.c)
void jup_channels(struct http_req *r);

// What both kinds share (jupyter_kernels.c).
// The session named by {id}, or NULL after a 404 was sent.
struct session *jup_find_kernel(struct http_req *r);
// The name of the kernel that is wanted: NULL and "" are the default of the settings.
const char *jup_kernel_name(const struct http_req *r, const char *name);
// False after a 403 was sent: the settings forbid lists.
bool jup_may_list(struct http_req *r);
void jup_no_such_kernel(struct http_req *r, const char *id);
// Starts a kernel. path: a directory, env: as the client sent it; name: for people; each may be NULL.
void jup_start_kernel(struct http_req *r, const char *name, const char *path, json_t *env, registry_created done,
                      void *user);
// The error of jup_start_kernel as an answer: too many sessions is 403 here.
void jup_start_failed(struct http_req *r, const struct ck_err *err);
void jup_location(struct http_req *r, const char *collection, const char *id);
