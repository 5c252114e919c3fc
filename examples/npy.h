/* npy.h - read and write NumPy .npy files (format versions 1 and 2)
   SPDX-License-Identifier: MIT

   Reads int8, int32, float16, float32 and float64 arrays, little-endian and in C order, as doubles: every
   value of these types is a double exactly. Writes float64. Nothing is assumed about the host's byte order.
   Whatever a file holds, reading ends in an array or in one line of text that says why not: wrong magic,
   another type, Fortran order, shapes that overflow, too few or too many bytes. No memory is taken for data
   that the file does not have. */
#ifndef NPY_H
#define NPY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define NPY_FUNCTION static __attribute__((unused))
#else
#define NPY_FUNCTION static
#endif

enum { NPY_MAX_RANK = 8, NPY_MAX_HEADER = 65536, NPY_BLOCK = 4096 };

/* An array in memory. values holds count doubles, last index contiguous. type is the file's: "<f4" and the
   like. */
typedef struct npy_array {
    int rank;
    int64_t shape[NPY_MAX_RANK];
    int64_t count;
    char type[4];
    double *values;
} npy_array;

/* Free what npy_read has allocated. */
NPY_FUNCTION void npy_free(npy_array *array)
{
    free(array->values);
    memset(array, 0, sizeof *array);
}

/* "(2,3,5)" into text, for messages. */
NPY_FUNCTION const char *npy_shape_text(int rank, const int64_t *shape, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? "," : "", (long long)shape[i]);
    }
    if (used < size) {
        snprintf(text + used, size - used, rank == 1 ? ",)" : ")");
    }
    return text;
}

NPY_FUNCTION uint64_t npy_bits(const unsigned char *bytes, int count)
{
    uint64_t bits = 0;
    for (int i = count; i-- > 0;) {
        bits = bits << 8 | bytes[i];
    }
    return bits;
}

NPY_FUNCTION double npy_half(uint32_t half)
{
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    uint64_t bits = (uint64_t)(half >> 15) << 63;
    if (exponent == 0) { /* zero and subnormals are multiples of 2^-24 */
        double value = (double)fraction / 16777216.0;
        return bits != 0 ? -value : value;
    }
    bits |= (exponent == 31 ? UINT64_C(2047) : (uint64_t)(exponent + 1008)) << 52 | (uint64_t)fraction << 42;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* count elements of `type` at bytes -> doubles. */
NPY_FUNCTION void npy_decode(const char *type, const unsigned char *bytes, double *values, size_t count)
{
    int size = type[2] - '0';
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = npy_bits(bytes + i * (size_t)size, size);
        if (type[1] == 'i') {
            int64_t wrap = size == 1 ? INT64_C(1) << 8 : INT64_C(1) << 32;
            int64_t value = (int64_t)bits;
            values[i] = (double)(value >= wrap / 2 ? value - wrap : value);
        } else if (size == 2) {
            values[i] = npy_half((uint32_t)bits);
        } else if (size == 4) {
            uint32_t word = (uint32_t)bits;
            float value;
            memcpy(&value, &word, sizeof value);
            values[i] = (double)value;
        } else {
            memcpy(&values[i], &bits, sizeof values[i]);
        }
    }
}

/* The text after "'key':" in a header dictionary, NULL when there is none. */
NPY_FUNCTION const char *npy_field(const char *header, const char *key)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(quoted);
    return at + strspn(at, " ");
}

/* "(2, 3)" at text -> shape; 0 when it is not a tuple of sizes or its product does not fit. */
NPY_FUNCTION int npy_parse_shape(const char *text, npy_array *array)
{
    if (*text++ != '(') {
        return 0;
    }
    array->rank = 0;
    array->count = 1;
    int empty = 0;
    for (;;) {
        text += strspn(text, " ");
        if (*text == ')') {
            break;
        }
        if (*text < '0' || *text > '9' || array->rank == NPY_MAX_RANK) {
            return 0;
        }
        int64_t length = 0;
        for (; *text >= '0' && *text <= '9'; text++) {
            if (length > (INT64_MAX - 9) / 10) {
                return 0;
            }
            length = length * 10 + (*text - '0');
        }
        array->shape[array->rank++] = length;
        if (length == 0) {
            empty = 1;
        } else if (array->count > (INT64_MAX / 8) / length) {
            return 0;
        } else {
            array->count *= length;
        }
        text += strspn(text, " ");
        if (*text == ',') {
            text++;
        } else if (*text != ')') {
            return 0;
        }
    }
    if (empty) {
        array->count = 0;
    }
    return 1;
}

/* Magic, version and dictionary. Leaves the file at its data; returns NULL or what is wrong. */
NPY_FUNCTION const char *npy_read_header(FILE *file, npy_array *array)
{
    unsigned char start[12];
    if (fread(start, 1, 8, file) != 8 || memcmp(start, "\x93NUMPY", 6) != 0) {
        return "not a .npy file";
    }
    if (start[6] != 1 && start[6] != 2) {
        return "a .npy version other than 1 and 2";
    }
    size_t wide = start[6] == 1 ? 2 : 4;
    if (fread(start + 8, 1, wide, file) != wide) {
        return "the header is cut off";
    }
    size_t length = (size_t)npy_bits(start + 8, (int)wide);
    if (length > NPY_MAX_HEADER) {
        return "the header is too long";
    }
    char *header = (char *)malloc(length + 1);
    if (header == NULL) {
        return "out of memory";
    }
    const char *wrong = NULL;
    if (fread(header, 1, length, file) != length) {
        wrong = "the header is cut off";
    } else {
        header[length] = '\0';
        const char *type = npy_field(header, "descr");
        const char *order = npy_field(header, "fortran_order");
        const char *shape = npy_field(header, "shape");
        if (type == NULL || order == NULL || shape == NULL) {
            wrong = "the header lacks descr, fortran_order or shape";
        } else if (strncmp(type, "'|i1'", 5) != 0 && strncmp(type, "'<i4'", 5) != 0 &&
                   strncmp(type, "'<f2'", 5) != 0 && strncmp(type, "'<f4'", 5) != 0 &&
                   strncmp(type, "'<f8'", 5) != 0) {
            wrong = "the type is none of int8, int32, float16, float32, float64 (little-endian)";
        } else if (strncmp(order, "False", 5) != 0) {
            wrong = "the array is in Fortran order";
        } else if (!npy_parse_shape(shape, array)) {
            wrong = "the shape is not a tuple of at most 8 sizes that fit";
        } else {
            memcpy(array->type, type + 1, 3);
        }
    }
    free(header);
    return wrong;
}

/* The data behind the header. Checks the file's size first. */
NPY_FUNCTION const char *npy_read_data(FILE *file, npy_array *array)
{
    size_t size = (size_t)(array->type[2] - '0');
    long begin = ftell(file);
    if (begin < 0 || fseek(file, 0, SEEK_END) != 0) {
        return "not a regular file";
    }
    long end = ftell(file);
    if (end < begin || fseek(file, begin, SEEK_SET) != 0) {
        return "not a regular file";
    }
    uint64_t want = (uint64_t)array->count * size, have = (uint64_t)(end - begin);
    if (have != want) {
        return have < want ? "the data is cut off" : "there is more data than the shape says";
    }
    if ((uint64_t)array->count > SIZE_MAX / sizeof(double)) {
        return "out of memory";
    }
    array->values = (double *)malloc(array->count > 0 ? (size_t)array->count * sizeof(double) : 1);
    if (array->values == NULL) {
        return "out of memory";
    }
    unsigned char block[NPY_BLOCK * 8];
    for (int64_t done = 0; done < array->count;) {
        size_t step = array->count - done < NPY_BLOCK ? (size_t)(array->count - done) : (size_t)NPY_BLOCK;
        if (fread(block, size, step, file) != step) {
            return "the data cannot be read";
        }
        npy_decode(array->type, block, array->values + done, step);
        done += (int64_t)step;
    }
    return NULL;
}

/* Read a file. Returns 1, or 0 with what is wrong in text ("PATH: reason") and *array all zero.
   npy_free what it returned. */
NPY_FUNCTION int npy_read(const char *path, npy_array *array, char *text, size_t size)
{
    memset(array, 0, sizeof *array);
    FILE *file = fopen(path, "rb");
    const char *wrong = "cannot be opened";
    if (file != NULL) {
        wrong = npy_read_header(file, array);
        if (wrong == NULL) {
            wrong = npy_read_data(file, array);
        }
        fclose(file);
    }
    if (wrong != NULL) {
        snprintf(text, size, "%s: %s", path, wrong);
        npy_free(array);
        return 0;
    }
    return 1;
}

/* Write float64 values, last index contiguous. Returns 1, or 0 with what is wrong in text. */
NPY_FUNCTION int npy_write(const char *path, int rank, const int64_t *shape, const double *values, char *text,
                           size_t size)
{
    char header[512];
    int used = snprintf(header, sizeof header, "{'descr': '<f8', 'fortran_order': False, 'shape': (");
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        used += snprintf(header + used, sizeof header - (size_t)used, "%lld,%s", (long long)shape[i],
                         i + 1 < rank ? " " : "");
        count *= shape[i];
    }
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    while ((10 + used + 1) % 64 != 0) { /* data begins at a multiple of 64 bytes */
        header[used++] = ' ';
    }
    header[used++] = '\n';
    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    start[8] = (unsigned char)(used & 255);
    start[9] = (unsigned char)(used >> 8);

    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        snprintf(text, size, "%s: cannot be opened for writing", path);
        return 0;
    }
    int good = fwrite(start, 1, 10, file) == 10 && fwrite(header, 1, (size_t)used, file) == (size_t)used;
    unsigned char block[NPY_BLOCK * 8];
    for (int64_t done = 0; good && done < count;) {
        size_t step = count - done < NPY_BLOCK ? (size_t)(count - done) : (size_t)NPY_BLOCK;
        for (size_t i = 0; i < step; i++) {
            uint64_t bits;
            memcpy(&bits, values + done + i, sizeof bits);
            for (int b = 0; b < 8; b++) {
                block[8 * i + (size_t)b] = (unsigned char)(bits >> 8 * b & 255);
            }
        }
        good = fwrite(block, 8, step, file) == step;
        done += (int64_t)step;
    }
    if (fclose(file) != 0 || !good) {
        snprintf(text, size, "%s: cannot be written", path);
        return 0;
    }
    return 1;
}

#endif /* NPY_H */
