/*------------------------------------------------------------------------------------------------------------
  >>plan-costs
  Corrections of modelled times as text, and the modelled time of a plan. A text that is wrong anywhere leaves
  the device as it was: half a file of corrections would choose worse than none. Names are in the order of
  CKCONV_COST_... and are those of the driver's files, too.
*/
#pragma once
#include "plan/tune.h"

CKCI_FN const char *ckci_cost_name(int which)
{
    static const char *const names[CKCONV_COSTS] = {"launch", "bytes", "fma", "matrix", "round"};
    return names[which];
}

CKCONV_API size_t ckconv_costs_to_text(const ckconv_device *device, char *text, size_t size)
{
    size_t at = 0;
    if (!text) {
        size = 0;
    } else if (size > 0) {
        text[0] = 0;
    }
    for (int i = 0; device && i < CKCONV_COSTS; i++) {
        if (device->costs[i] > 0) {
            at = ckci_append(text, size, at, "%s %.9g\n", ckci_cost_name(i), (double)device->costs[i]);
        }
    }
    return at;
}

/* One line, its end left out, into costs. */
CKCI_FN ckconv_status ckci_read_cost(const char *line, size_t length, int number, float *costs,
                                     ckconv_error *err)
{
    char name[16], copy[64], rest;
    double factor = 0;
    const size_t start = length < sizeof copy ? strspn(line, " \t") : 0;
    if (start >= length || line[start] == '#') {
        return CKCONV_OK;
    }
    if (length >= sizeof copy) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "line %d is '%.40s...': longer than a name and a factor",
                         number, line);
    }
    memcpy(copy, line, length);
    copy[length] = 0;
    if (sscanf(copy, "%15s %30lf %c", name, &factor, &rest) != 2) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "line %d is '%s': must be a name and a factor", number,
                         copy);
    }
    for (int i = 0; i < CKCONV_COSTS; i++) {
        if (strcmp(name, ckci_cost_name(i)) != 0) {
            continue;
        }
        if (!(factor >= CKCI_LEAST_COST && factor <= CKCI_MOST_COST)) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "line %d: %s is %g: must be from 1/64 to 64", number,
                             name, factor);
        }
        if (costs[i] > 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "line %d: a second line of %s", number, name);
        }
        costs[i] = (float)factor;
        return CKCONV_OK;
    }
    return ckci_fail(err, CKCONV_ERR_ARGUMENT, "line %d: '%s' is not launch, bytes, fma, matrix or round",
                     number, name);
}

CKCONV_API ckconv_status ckconv_costs_from_text(ckconv_device *device, const char *text, ckconv_error *err)
{
    float costs[CKCONV_COSTS] = {0, 0, 0, 0, 0};
    if (!device || !text) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", device ? "text" : "device");
    }
    for (int number = 1; *text; number++) {
        const size_t end = strcspn(text, "\n");
        const size_t length = end > 0 && text[end - 1] == '\r' ? end - 1 : end;
        CKCI_TRY(ckci_read_cost(text, length, number, costs, err));
        text += text[end] ? end + 1 : end;
    }
    memcpy(device->costs, costs, sizeof costs);
    return ckci_ok(err);
}

CKCONV_API double ckconv_plan_seconds(const ckconv_plan *plan)
{
    if (ckci_check_magic(plan, "plan", NULL) != CKCONV_OK || plan->tune[CKCI_TUNE_TIME] < 0) {
        return -1;
    }
    return (double)plan->tune[CKCI_TUNE_TIME] * 1e-12;
}
