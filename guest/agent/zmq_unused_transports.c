// Debian's libzmq.a refers to GSSAPI (an authentication mechanism) and NORM (a multicast
// transport), for which Debian has no static libraries. The agent only ever binds "tcp://" with
// the NULL mechanism, so none of this can be reached; each symbol is here so that the static link
// is complete, and aborts so that a mistake in that reasoning cannot go unnoticed.
// Never declare them through their real headers: the packages need not be installed.
#include <stdlib.h>

#define UNUSED_FUNCTION(name)                                                                                          \
    void name(void);                                                                                                   \
    void name(void)                                                                                                    \
    {                                                                                                                  \
        abort();                                                                                                       \
    }
#define UNUSED_VALUE(name)                                                                                             \
    extern const void *const name;                                                                                     \
    const void *const name = NULL;

// clang-format off
UNUSED_FUNCTION(gss_accept_sec_context)
UNUSED_FUNCTION(gss_acquire_cred)
UNUSED_FUNCTION(gss_delete_sec_context)
UNUSED_FUNCTION(gss_display_name)
UNUSED_FUNCTION(gss_import_name)
UNUSED_FUNCTION(gss_init_sec_context)
UNUSED_FUNCTION(gss_release_buffer)
UNUSED_FUNCTION(gss_release_cred)
UNUSED_FUNCTION(gss_release_name)
UNUSED_FUNCTION(gss_unwrap)
UNUSED_FUNCTION(gss_wrap)
UNUSED_VALUE(GSS_C_NT_HOSTBASED_SERVICE)
UNUSED_VALUE(GSS_C_NT_USER_NAME)

UNUSED_FUNCTION(NormCreateInstance)
UNUSED_FUNCTION(NormCreateSession)
UNUSED_FUNCTION(NormDestroyInstance)
UNUSED_FUNCTION(NormDestroySession)
UNUSED_FUNCTION(NormGetDescriptor)
UNUSED_FUNCTION(NormGetNextEvent)
UNUSED_FUNCTION(NormGetRandomSessionId)
UNUSED_FUNCTION(NormIsUnicastAddress)
UNUSED_FUNCTION(NormNodeDelete)
UNUSED_FUNCTION(NormObjectGetType)
UNUSED_FUNCTION(NormObjectGetUserData)
UNUSED_FUNCTION(NormObjectSetUserData)
UNUSED_FUNCTION(NormSetCongestionControl)
UNUSED_FUNCTION(NormSetDefaultSyncPolicy)
UNUSED_FUNCTION(NormSetDefaultUnicastNack)
UNUSED_FUNCTION(NormSetLoopback)
UNUSED_FUNCTION(NormSetMulticastInterface)
UNUSED_FUNCTION(NormSetRxPortReuse)
UNUSED_FUNCTION(NormSetTTL)
UNUSED_FUNCTION(NormStartReceiver)
UNUSED_FUNCTION(NormStartSender)
UNUSED_FUNCTION(NormStopInstance)
UNUSED_FUNCTION(NormStopReceiver)
UNUSED_FUNCTION(NormStopSender)
UNUSED_FUNCTION(NormStreamFlush)
UNUSED_FUNCTION(NormStreamOpen)
UNUSED_FUNCTION(NormStreamRead)
UNUSED_FUNCTION(NormStreamSeekMsgStart)
UNUSED_FUNCTION(NormStreamWrite)
UNUSED_VALUE(NORM_INSTANCE_INVALID)
UNUSED_VALUE(NORM_NODE_ANY)
UNUSED_VALUE(NORM_OBJECT_INVALID)
UNUSED_VALUE(NORM_SESSION_INVALID)
