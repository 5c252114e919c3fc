/* _ckconv_fast.c - one call of ckconv_run from Python without ctypes, which takes it some microseconds

   prepare(run, plan, bytes, slots): what all calls of a plan have in common, as a capsule. run: the address
   of ckconv_run; plan: that of a plan, which must live as long as the capsule; bytes: of its workspace;
   slots: a bytes object, for each pointer of a call the index of its member among those of ckconv_args.
   run(prepared, workspace, stream, pointer...): all of them integers. None, or the error's text when the run
   failed.

   `make python` builds it where Python.h is; python/ckconv_torch.py does without it elsewhere. It has no code
   of the library and links nothing, and keeps to the part of Python's interface that is the same from 3.10
   on.
   SPDX-License-Identifier: MIT */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <string.h>
#include "ckconv.h"

enum { MEMBERS = (int)(sizeof(ckconv_args) / sizeof(void *)) };

typedef union members {
    ckconv_args args;
    const void *pointer[MEMBERS];
} members;

typedef ckconv_status (*run_function)(const ckconv_plan *, const ckconv_args *, void *, size_t, void *,
                                      ckconv_error *);

typedef struct prepared {
    union {
        void *address;
        run_function call;
    } run;
    const ckconv_plan *plan;
    size_t bytes;
    Py_ssize_t count;
    unsigned char slot[MEMBERS];
} prepared;

static void discard(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, "prepared"));
}

static PyObject *prepare(PyObject *self, PyObject *const *arg, Py_ssize_t count)
{
    (void)self;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "prepare takes 4 arguments");
        return NULL;
    }
    void *run = PyLong_AsVoidPtr(arg[0]);
    const ckconv_plan *plan = (const ckconv_plan *)PyLong_AsVoidPtr(arg[1]);
    size_t bytes = PyLong_AsSize_t(arg[2]);
    char *slots = NULL;
    Py_ssize_t length = 0;
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(arg[3], &slots, &length) != 0) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        if ((unsigned char)slots[i] >= MEMBERS) {
            length = MEMBERS + 1;
        }
    }
    if (!run || !plan || length > MEMBERS) {
        PyErr_SetString(PyExc_ValueError, "no run, no plan, or slots that ckconv_args does not have");
        return NULL;
    }
    prepared *p = (prepared *)PyMem_Malloc(sizeof *p);
    if (!p) {
        return PyErr_NoMemory();
    }
    p->run.address = run;
    p->plan = plan;
    p->bytes = bytes;
    p->count = length;
    memcpy(p->slot, slots, (size_t)length);
    PyObject *capsule = PyCapsule_New(p, "prepared", discard);
    if (!capsule) {
        PyMem_Free(p);
    }
    return capsule;
}

static PyObject *run(PyObject *self, PyObject *const *arg, Py_ssize_t count)
{
    (void)self;
    const prepared *p = count < 3 ? NULL : (const prepared *)PyCapsule_GetPointer(arg[0], "prepared");
    if (!p || count != 3 + p->count) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError,
                            "run takes what was prepared, workspace, stream, a pointer a slot");
        }
        return NULL;
    }
    members m;
    memset(&m, 0, sizeof m);
    void *workspace = PyLong_AsVoidPtr(arg[1]), *stream = PyLong_AsVoidPtr(arg[2]);
    for (Py_ssize_t i = 0; i < p->count; i++) {
        m.pointer[p->slot[i]] = PyLong_AsVoidPtr(arg[3 + i]);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    ckconv_error error;
    ckconv_status status;
    Py_BEGIN_ALLOW_THREADS
    status = p->run.call(p->plan, &m.args, workspace, p->bytes, stream, &error);
    Py_END_ALLOW_THREADS
    if (status == CKCONV_OK) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("s", error.text);
}

static PyMethodDef functions[] = {
    {"prepare", (PyCFunction)(void (*)(void))prepare, METH_FASTCALL, "prepare(run, plan, bytes, slots)"},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, "run(prepared, workspace, stream, pointer...)"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_ckconv_fast", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__ckconv_fast(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "ARGS_BYTES", (long)sizeof(ckconv_args)) != 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
