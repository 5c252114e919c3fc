/*------------------------------------------------------------------------------------------------------------
  >>core-base
  What every room may use: how a call fails, and how that is passed on. A failure is a status and, where the
  caller gave an error to fill, a text that names the argument, its value and what is allowed. Every failure
  goes through ckci_fail, so that no status is without a text; CKCI_TRY hands it up. Texts that callers hold
  are written piece by piece. Nothing is printed and nothing exits.
*/
#pragma once
#include "core/platform.h"

/* Bytes on a thread's stack that take the place of workspace; buffers of group norms are parts of it, too. */
#ifdef CKCONV_STACK_BYTES
#if CKCONV_STACK_BYTES < 16384 || CKCONV_STACK_BYTES > 65536
#error "CKCONV_STACK_BYTES must be 16384 to 65536"
#endif
enum { CKCI_STACK = CKCONV_STACK_BYTES / 4096 * 4096 };
#else
enum { CKCI_STACK = 65536 };
#endif
/* Bytes of the stack that the workspace of a group norm may take: the 8,256 bytes of its backward pass fit
   the default. */
enum { CKCI_LITTLE_STACK = CKCI_STACK / 7 / 64 * 64 };
enum { CKCI_MAGIC = 0x434b4356, CKCI_REFUSED = 0x52454655 };

/* Every failure goes through here: status, and a text with the argument, the value and what is allowed. */
CKCI_FN ckconv_status ckci_fail(ckconv_error *err, ckconv_status status, const char *format, ...)
    CKCI_PRINTF(3, 4) CKCI_COLD;
CKCI_FN ckconv_status ckci_fail(ckconv_error *err, ckconv_status status, const char *format, ...)
{
    if (err) {
        va_list list;
        va_start(list, format);
        err->status = status;
        vsnprintf(err->text, sizeof err->text, format, list);
        va_end(list);
    }
    return status;
}

CKCI_FN ckconv_status ckci_ok(ckconv_error *err)
{
    if (err) {
        err->status = CKCONV_OK;
        err->text[0] = 0;
    }
    return CKCONV_OK;
}

/* Appends to a text that may be cut; returns the length that it would have. */
CKCI_FN size_t ckci_append(char *text, size_t size, size_t at, const char *format, ...) CKCI_PRINTF(4, 5);
CKCI_FN size_t ckci_append(char *text, size_t size, size_t at, const char *format, ...)
{
    char piece[256];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    size_t length = n < 0 ? 0 : n < (int)sizeof piece ? (size_t)n : sizeof piece - 1;
    for (size_t i = 0; i < length && at + i + 1 < size; i++) {
        text[at + i] = piece[i];
    }
    if (size > 0) {
        text[at + length < size ? at + length : size - 1] = 0;
    }
    return at + length;
}

CKCI_FN int ckci_same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

#define CKCI_TRY(call)                                                                                       \
    do {                                                                                                     \
        ckconv_status ckci_status = (call);                                                                  \
        if (ckci_status != CKCONV_OK) {                                                                      \
            return ckci_status;                                                                              \
        }                                                                                                    \
    } while (0)
#define CKCI_LL(x) ((long long)(x))
