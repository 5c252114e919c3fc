/*------------------------------------------------------------------------------------------------------------
  >>core-names
  Names of every enumeration, in one table each, and back; the text of a status; what this build holds. Texts
  of errors, plans and drivers take names from here and nowhere else. The first name of a value is the one
  that is printed, others are read only. It reads the switches, and knows nothing of engines.
*/
#pragma once
#include "core/base.h"
#include "core/element.h"
#include "core/ops.h"

CKCONV_API int32_t ckconv_version(void)
{
    return CKCONV_VERSION;
}

CKCONV_API const char *ckconv_build_text(void)
{
#define CKCI_SAY_0(TEXT)
#define CKCI_SAY_1(TEXT) " " TEXT
    return "types" CKCI_JOIN(CKCI_SAY_, CKCI_HAS_F64)("f64") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_F32)(
        "f32") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_F16)("f16") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_BF16)("bf16")
        CKCI_JOIN(CKCI_SAY_, CKCI_HAS_FP8)("fp8") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_I8)(
            "i8") "; operations" CKCI_JOIN(CKCI_SAY_, CKCI_HAS_FWD)("fwd")
            CKCI_JOIN(CKCI_SAY_, CKCI_HAS_BWD_DATA)("bwd_data") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_BWD_WEIGHT)(
                "bwd_weight") CKCI_JOIN(CKCI_SAY_, CKCI_HAS_CONV_CONV)("conv_conv_fwd")
                CKCI_JOIN(CKCI_SAY_, CKCI_HAS_GROUPNORM)("groupnorm")
                    CKCI_JOIN(CKCI_SAY_, CKCI_HAS_TRANSFORM)("transform") "; layouts channels_last" CKCI_JOIN(
                        CKCI_SAY_, CKCI_HAS_CHANNELS_FIRST)("channels_first")
                        CKCI_JOIN(CKCI_SAY_, CKCI_HAS_DEPTHWISE)("depthwise") "; engines ref" CKCI_JOIN(
                            CKCI_SAY_, CKCI_HAS_CPU)("cpu") CKCI_JOIN(CKCI_SAY_, CKCI_GPU_COMPILER)("gpu");
#undef CKCI_SAY_0
#undef CKCI_SAY_1
}

CKCONV_API const char *ckconv_status_text(ckconv_status status)
{
    static const char *const texts[] = {"ok",
                                        "argument not allowed",
                                        "required pointer is NULL",
                                        "size does not fit",
                                        "workspace too small",
                                        "not supported",
                                        "not a plan of this version",
                                        "no device code in this build",
                                        "no such device",
                                        "wrong device",
                                        "GPU runtime refused",
                                        "out of memory",
                                        "tensors overlap"};
    return status >= 0 && status < (ckconv_status)(sizeof texts / sizeof texts[0]) ? texts[status]
                                                                                   : "unknown status";
}

/* A name and its value; tables end with NULL. The first name of a value is the one that is printed. */
typedef struct ckci_name {
    const char *name;
    int32_t value;
} ckci_name;

CKCI_FN const char *ckci_name_of(const ckci_name *table, int32_t value)
{
    while (table->name && table->value != value) {
        table++;
    }
    return table->name;
}

CKCI_FN int32_t ckci_value_of(const ckci_name *table, const char *name, int32_t unknown)
{
    while (table->name && !ckci_same_text(table->name, name)) {
        table++;
    }
    return table->name ? table->value : unknown;
}

CKCI_FN const ckci_name *ckci_dtype_names(void)
{
    static const ckci_name table[] = {{"f64", CKCONV_F64},
                                      {"f32", CKCONV_F32},
                                      {"f16", CKCONV_F16},
                                      {"bf16", CKCONV_BF16},
                                      {"f8e4m3", CKCONV_F8E4M3},
                                      {"f8e5m2", CKCONV_F8E5M2},
                                      {"f8e4m3fnuz", CKCONV_F8E4M3FNUZ},
                                      {"f8e5m2fnuz", CKCONV_F8E5M2FNUZ},
                                      {"i8", CKCONV_I8},
                                      {"i32", CKCONV_I32},
                                      {"tf32", CKCONV_TF32},
                                      {"bf16x3", CKCONV_BF16X3},
                                      {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_layout_names(void)
{
    static const ckci_name table[] = {
        {"NHWGC", CKCONV_NHWGC},     {"NWGC", CKCONV_NHWGC},      {"NDHWGC", CKCONV_NHWGC},
        {"NHWGK", CKCONV_NHWGC},     {"NWGK", CKCONV_NHWGC},      {"NDHWGK", CKCONV_NHWGC},
        {"GNHWC", CKCONV_GNHWC},     {"GNWC", CKCONV_GNHWC},      {"GNDHWC", CKCONV_GNHWC},
        {"GNHWK", CKCONV_GNHWC},     {"GNWK", CKCONV_GNHWC},      {"GNDHWK", CKCONV_GNHWC},
        {"NGCHW", CKCONV_NGCHW},     {"NGCW", CKCONV_NGCHW},      {"NGCDHW", CKCONV_NGCHW},
        {"NGKHW", CKCONV_NGCHW},     {"NGKW", CKCONV_NGCHW},      {"NGKDHW", CKCONV_NGCHW},
        {"GKYXC", CKCONV_GKYXC},     {"GKXC", CKCONV_GKYXC},      {"GKZYXC", CKCONV_GKYXC},
        {"GKCYX", CKCONV_GKCYX},     {"GKCX", CKCONV_GKCYX},      {"GKCZYX", CKCONV_GKCYX},
        {"CHANNEL", CKCONV_CHANNEL}, {"STRIDED", CKCONV_STRIDED}, {NULL, 0}};
    return table;
}

CKCI_FN const ckci_name *ckci_engine_names(void)
{
    static const ckci_name table[] = {{"auto", CKCONV_ENGINE_AUTO},
                                      {"ref", CKCONV_ENGINE_REF},
                                      {"cpu", CKCONV_ENGINE_CPU},
                                      {"gpu", CKCONV_ENGINE_GPU},
                                      {NULL, 0}};
    return table;
}

CKCONV_API const char *ckconv_dtype_name(ckconv_dtype dtype)
{
    return ckci_name_of(ckci_dtype_names(), dtype);
}

CKCONV_API ckconv_dtype ckconv_dtype_from_name(const char *name)
{
    return ckci_value_of(ckci_dtype_names(), name, 0);
}

CKCONV_API const char *ckconv_layout_name(ckconv_layout layout)
{
    return ckci_name_of(ckci_layout_names(), layout);
}

CKCONV_API ckconv_layout ckconv_layout_from_name(const char *name)
{
    return ckci_value_of(ckci_layout_names(), name, 0);
}

CKCONV_API const char *ckconv_op_name(ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    return row ? row->text : NULL;
}

CKCONV_API ckconv_op ckconv_op_from_name(const char *name)
{
    const ckci_operation *row = ckci_operation_at(0);
    for (int32_t i = 1; row && !ckci_same_text(row->text, name); i++) {
        row = ckci_operation_at(i);
    }
    return row ? row->op : 0;
}

CKCONV_API const char *ckconv_element_name(ckconv_element kind)
{
    const ckci_element_row *row = ckci_find_element(kind);
    return row ? row->name : NULL;
}

CKCONV_API ckconv_element ckconv_element_from_name(const char *name)
{
    const ckci_element_row *row = ckci_element_at(0);
    for (int32_t i = 1; row && !ckci_same_text(row->name, name); i++) {
        row = ckci_element_at(i);
    }
    return row ? row->kind : -1;
}

CKCONV_API const char *ckconv_engine_name(ckconv_engine engine)
{
    return ckci_name_of(ckci_engine_names(), engine);
}

CKCONV_API ckconv_engine ckconv_engine_from_name(const char *name)
{
    return ckci_value_of(ckci_engine_names(), name, -1);
}

CKCONV_API size_t ckconv_dtype_size(ckconv_dtype dtype)
{
    return ckci_size(dtype);
}
