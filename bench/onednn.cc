/* onednn.cc - oneDNN and ckconv side by side over bench/cases.tsv, in one process
   SPDX-License-Identifier: MIT

   Build and run: make bench. What is measured, and how: bench/README.md.
   C++11, because oneDNN's C interface is much longer. Nothing else depends on this file. */
#include "ckconv.h"

#include <dnnl.hpp>
#include <omp.h>
#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

const double kCap = 4.0;        /* no row counts for more than this in a mean */
const double kBurst = 0.005;    /* seconds that one sample lasts at least */
const double kSlow = 3.0;       /* a call longer than this is timed once */
const double kTolerated = 0.03; /* part of a sample that threads may wait for a core */
const double kQuick = 0.1;      /* up to here a call is repeated while the weight order is chosen */
const size_t kMaxSamples = 201; /* per library and row */
const double kPatience = 6.0;   /* times --seconds: a row ends after that, however unequal the two are */

struct Options {
    std::string cases = "bench/cases.tsv", filter, op, engine;
    std::string dtype = "f32";
    int repeat = 3, threads = 2;
    double seconds = 0.3;
    bool minimum = false; /* an entry's time is its fastest sample, not the median */
    bool tiny = false;
};

/* A convolution as both libraries understand it; k and c per group, dilation 1 = dense. */
struct Geometry {
    int ndim;
    int64_t g, n, k, c;
    int64_t filter[3], input[3], stride[3], dilation[3], pad[3], output[3];

    int64_t taps() const
    {
        return product(filter);
    }
    int64_t in_count() const
    {
        return n * g * c * product(input);
    }
    int64_t wei_count() const
    {
        return g * k * c * taps();
    }
    int64_t out_count() const
    {
        return n * g * k * product(output);
    }
    double flop() const
    {
        return 2.0 * (double)out_count() * (double)(c * taps());
    }
    /* terms in one element's sum */
    double terms(ckconv_op op) const
    {
        if (op == CKCONV_BWD_WEIGHT) {
            return (double)(n * product(output));
        }
        return (double)((op == CKCONV_FWD ? c : k) * taps());
    }

  private:
    int64_t product(const int64_t *size) const
    {
        int64_t p = 1;
        for (int i = 0; i < ndim; i++) {
            p *= size[i];
        }
        return p;
    }
};

struct Case {
    std::string name, kind;
    Geometry conv;
    int64_t k1; /* conv_conv: outputs of the 1x1 second stage */
};


/*------------------------------------------------------------------------------------------------------------
  Cases
*/

std::vector<std::string> split(const std::string &line, char separator)
{
    std::vector<std::string> fields;
    std::stringstream stream(line);
    std::string field;
    while (std::getline(stream, field, separator)) {
        fields.push_back(field);
    }
    return fields;
}

int64_t to_int(const std::string &text, const std::string &where)
{
    char *end = nullptr;
    long long value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') {
        throw std::runtime_error(where + ": '" + text + "' is not a whole number");
    }
    return (int64_t)value;
}

void to_ints(const std::string &text, int ndim, int64_t *value, const std::string &where)
{
    std::vector<std::string> part = split(text, ',');
    if ((int)part.size() != ndim) {
        throw std::runtime_error(where + ": '" + text + "' needs " + std::to_string(ndim) + " numbers");
    }
    for (int i = 0; i < ndim; i++) {
        value[i] = to_int(part[(size_t)i], where);
    }
}

void set_output(Geometry &v)
{
    for (int i = 0; i < v.ndim; i++) {
        v.output[i] = (v.input[i] + 2 * v.pad[i] - (v.filter[i] - 1) * v.dilation[i] - 1) / v.stride[i] + 1;
    }
}

/* Same kind of problem, small enough for the ref engine. */
void shrink(Case &item)
{
    Geometry &v = item.conv;
    v.n = std::min<int64_t>(v.n, 2);
    v.g = std::min<int64_t>(v.g, 5);
    v.k = std::min<int64_t>(v.k, 12);
    v.c = std::min<int64_t>(v.c, 20);
    item.k1 = std::min<int64_t>(item.k1, 12);
    for (int i = 0; i < v.ndim; i++) {
        v.input[i] = std::min<int64_t>(v.input[i], v.ndim == 3 ? 7 : 13);
    }
}

Case parse_case(const std::vector<std::string> &field, const std::string &where, bool tiny)
{
    if (field.size() < 12) {
        throw std::runtime_error(where + ": fewer than 12 columns");
    }
    Case item;
    std::memset(&item.conv, 0, sizeof item.conv);
    item.name = field[0];
    item.kind = field[1];
    item.k1 = 0;
    if (item.kind == "groupnorm") {
        return item;
    }
    if (item.kind != "conv" && item.kind != "conv_conv") {
        throw std::runtime_error(where + ": op is conv, conv_conv or groupnorm, not '" + item.kind + "'");
    }
    Geometry &v = item.conv;
    v.ndim = (int)to_int(field[2], where);
    if (v.ndim < 1 || v.ndim > 3) {
        throw std::runtime_error(where + ": ndim is 1, 2 or 3");
    }
    v.g = to_int(field[3], where);
    int64_t n = to_int(field[4], where);
    v.n = std::max(std::min<int64_t>(n, 8), n / 16);
    v.k = to_int(field[5], where);
    v.c = to_int(field[6], where);
    to_ints(field[7], v.ndim, v.filter, where);
    to_ints(field[8], v.ndim, v.input, where);
    to_ints(field[9], v.ndim, v.stride, where);
    to_ints(field[10], v.ndim, v.dilation, where);
    to_ints(field[11], v.ndim, v.pad, where);
    if (item.kind == "conv_conv") {
        if (field.size() < 13 || field[12].compare(0, 3, "K1=") != 0) {
            throw std::runtime_error(where + ": the note of a conv_conv row opens with K1=number");
        }
        item.k1 = to_int(field[12].substr(3, field[12].find(' ') - 3), where);
    }
    if (tiny) {
        shrink(item);
    }
    set_output(v);
    return item;
}

std::vector<Case> read_cases(const std::string &path, bool tiny)
{
    std::ifstream file(path.c_str());
    if (!file) {
        throw std::runtime_error("cannot read " + path);
    }
    std::vector<Case> cases;
    std::string line;
    for (int number = 1; std::getline(file, line); number++) {
        if (!line.empty() && line[0] != '#') {
            cases.push_back(parse_case(split(line, '\t'), path + ":" + std::to_string(number), tiny));
        }
    }
    return cases;
}


/*------------------------------------------------------------------------------------------------------------
  Data: page-aligned buffers of f32 or bf16
*/

struct Buffer {
    Buffer(int64_t element_count, bool is_bf16) : count(element_count), bf16(is_bf16)
    {
        void *memory = nullptr;
        if (posix_memalign(&memory, 4096, std::max<size_t>(bytes(), 1)) != 0) {
            throw std::bad_alloc();
        }
        data.reset(memory);
    }
    size_t size() const
    {
        return bf16 ? 2 : 4;
    }
    size_t bytes() const
    {
        return (size_t)count * size();
    }
    /* Every element a NaN, so that one that is never written shows. */
    void poison()
    {
        std::memset(data.get(), 0xff, bytes());
    }
    double at(int64_t i) const
    {
        uint32_t bits = 0;
        if (bf16) {
            uint16_t half;
            std::memcpy(&half, (const char *)data.get() + 2 * i, 2);
            bits = (uint32_t)half << 16;
        } else {
            std::memcpy(&bits, (const char *)data.get() + 4 * i, 4);
        }
        float value;
        std::memcpy(&value, &bits, 4);
        return (double)value;
    }
    void set(int64_t i, float value)
    {
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        if (bf16) {
            uint16_t half = (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
            std::memcpy((char *)data.get() + 2 * i, &half, 2);
        } else {
            std::memcpy((char *)data.get() + 4 * i, &bits, 4);
        }
    }

    struct Free {
        void operator()(void *memory) const
        {
            std::free(memory);
        }
    };
    int64_t count;
    bool bf16;
    std::unique_ptr<void, Free> data;
};

typedef std::shared_ptr<Buffer> BufferPtr;

BufferPtr make_buffer(int64_t count, bool bf16)
{
    return std::make_shared<Buffer>(count, bf16);
}

uint64_t next_random(uint64_t &state)
{
    state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Standard normal values (Box-Muller), the same for any number of threads. */
void fill_normal(Buffer &buffer, uint64_t seed)
{
    const int64_t block = 4096;
    int64_t blocks = (buffer.count + block - 1) / block;
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t state = (seed << 40) + (uint64_t)b * 0x2545f4914f6cdd1du;
        int64_t end = std::min(buffer.count, (b + 1) * block);
        for (int64_t i = b * block; i < end; i += 2) {
            uint64_t bits = next_random(state);
            float u = ((float)(bits >> 40) + 1.0f) / 16777216.0f;
            float angle = (float)(bits & 0xffffffu) * (6.28318531f / 16777216.0f);
            float radius = std::sqrt(-2.0f * std::log(u));
            buffer.set(i, radius * std::cos(angle));
            if (i + 1 < end) {
                buffer.set(i + 1, radius * std::sin(angle));
            }
        }
    }
}

/* [rows][a][b] -> [rows][b][a] */
BufferPtr transpose_inner(const Buffer &from, int64_t rows, int64_t a, int64_t b)
{
    BufferPtr to = make_buffer(from.count, from.bf16);
    size_t size = from.size();
    const char *src = (const char *)from.data.get();
    char *dst = (char *)to->data.get();
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < a; i++) {
            for (int64_t j = 0; j < b; j++) {
                std::memcpy(dst + (size_t)((r * b + j) * a + i) * size,
                            src + (size_t)((r * a + i) * b + j) * size, size);
            }
        }
    }
    return to;
}


/*------------------------------------------------------------------------------------------------------------
  oneDNN: primitives in sequence; all creation and allocation happens here, none while timed
*/

typedef dnnl::memory Memory;
typedef std::unordered_map<int, Memory> PrimitiveArgs;

struct Sequence {
    explicit Sequence(const dnnl::engine &on) : engine(on), stream(on)
    {
    }
    void add(const dnnl::primitive &primitive, const PrimitiveArgs &arguments)
    {
        primitives.push_back(primitive);
        args.push_back(arguments);
    }
    void run()
    {
        for (size_t i = 0; i < primitives.size(); i++) {
            primitives[i].execute(stream, args[i]);
        }
        stream.wait();
    }
    void name(const std::string &part)
    {
        impl += (impl.empty() ? "" : "+") + part;
    }

    dnnl::engine engine;
    dnnl::stream stream;
    std::vector<dnnl::primitive> primitives;
    std::vector<PrimitiveArgs> args;
    std::string impl; /* oneDNN's names of what it chose, "+reorder" where one is timed */
};

typedef std::unique_ptr<Sequence> SequencePtr;

/* The two plain orders of a weight tensor. */
enum WeightOrder { kOihw, kOhwi };

Memory::format_tag act_tag(int ndim)
{
    typedef Memory::format_tag tag;
    return ndim == 1 ? tag::nwc : ndim == 2 ? tag::nhwc : tag::ndhwc;
}

Memory::format_tag wei_tag(const Geometry &v, WeightOrder order)
{
    typedef Memory::format_tag tag;
    static const tag tags[2][2][3] = {
        {{tag::oiw, tag::oihw, tag::oidhw}, {tag::owi, tag::ohwi, tag::odhwi}},
        {{tag::goiw, tag::goihw, tag::goidhw}, {tag::gowi, tag::gohwi, tag::godhwi}}};
    return tags[v.g > 1][order][v.ndim - 1];
}

/* Everything that describes one convolution to oneDNN. Activations are fixed to channels last; the weights'
   format is oneDNN's choice ("any"), with a reorder from or to the plain user tensor where it differs. */
struct DnnlConv {
    DnnlConv(const Geometry &v, Memory::data_type type, WeightOrder order)
    {
        Memory::dims in_dims = {v.n, v.g * v.c}, out_dims = {v.n, v.g * v.k}, wei_dims;
        if (v.g > 1) {
            wei_dims.push_back(v.g);
        }
        wei_dims.push_back(v.k);
        wei_dims.push_back(v.c);
        for (int i = 0; i < v.ndim; i++) {
            in_dims.push_back(v.input[i]);
            out_dims.push_back(v.output[i]);
            wei_dims.push_back(v.filter[i]);
            stride.push_back(v.stride[i]);
            dilation.push_back(v.dilation[i] - 1);
            pad.push_back(v.pad[i]);
        }
        in = Memory::desc(in_dims, type, act_tag(v.ndim));
        out = Memory::desc(out_dims, type, act_tag(v.ndim));
        wei = Memory::desc(wei_dims, type, wei_tag(v, order));
        wei_any = Memory::desc(wei_dims, type, Memory::format_tag::any);
        attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    }
    dnnl::convolution_forward::primitive_desc forward(const dnnl::engine &engine) const
    {
        dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training,
                                             dnnl::algorithm::convolution_direct, in, wei_any, out, stride,
                                             dilation, pad, pad);
        return dnnl::convolution_forward::primitive_desc(desc, attr, engine);
    }

    Memory::desc in, out, wei, wei_any;
    Memory::dims stride, dilation, pad;
    dnnl::primitive_attr attr;
};

void add_reorder(Sequence &sequence, Memory &from, Memory &to, const dnnl::primitive_attr &attr)
{
    dnnl::reorder::primitive_desc desc(from, to, attr);
    Memory scratch(desc.scratchpad_desc(), sequence.engine);
    PrimitiveArgs args = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratch}};
    sequence.add(dnnl::reorder(desc), args);
    sequence.name("reorder");
}

/* The memory that the primitive reads its weights from; adds the reorder that fills it, if one is needed. */
Memory readable_weights(Sequence &sequence, const DnnlConv &conv, const Memory::desc &wanted, void *wei)
{
    Memory plain(conv.wei, sequence.engine, wei);
    if (wanted == conv.wei) {
        return plain;
    }
    Memory blocked(wanted, sequence.engine);
    add_reorder(sequence, plain, blocked, conv.attr);
    return blocked;
}

void add_conv(Sequence &sequence, ckconv_op op, const DnnlConv &conv, void *in, void *wei, void *out)
{
    const dnnl::engine &engine = sequence.engine;
    Memory act_in(conv.in, engine, in), act_out(conv.out, engine, out);
    dnnl::convolution_forward::primitive_desc forward = conv.forward(engine);
    if (op == CKCONV_FWD) {
        Memory weights = readable_weights(sequence, conv, forward.weights_desc(), wei);
        Memory scratch(forward.scratchpad_desc(), engine);
        PrimitiveArgs args = {{DNNL_ARG_SRC, act_in},
                              {DNNL_ARG_WEIGHTS, weights},
                              {DNNL_ARG_DST, act_out},
                              {DNNL_ARG_SCRATCHPAD, scratch}};
        sequence.add(dnnl::convolution_forward(forward), args);
        sequence.name(forward.impl_info_str());
    } else if (op == CKCONV_BWD_DATA) {
        typedef dnnl::convolution_backward_data Conv;
        Conv::desc what(dnnl::algorithm::convolution_direct, conv.in, conv.wei_any, conv.out, conv.stride,
                        conv.dilation, conv.pad, conv.pad);
        Conv::primitive_desc desc(what, conv.attr, engine, forward);
        Memory weights = readable_weights(sequence, conv, desc.weights_desc(), wei);
        Memory scratch(desc.scratchpad_desc(), engine);
        PrimitiveArgs args = {{DNNL_ARG_DIFF_SRC, act_in},
                              {DNNL_ARG_WEIGHTS, weights},
                              {DNNL_ARG_DIFF_DST, act_out},
                              {DNNL_ARG_SCRATCHPAD, scratch}};
        sequence.add(Conv(desc), args);
        sequence.name(desc.impl_info_str());
    } else {
        typedef dnnl::convolution_backward_weights Conv;
        Conv::desc what(dnnl::algorithm::convolution_direct, conv.in, conv.wei_any, conv.out, conv.stride,
                        conv.dilation, conv.pad, conv.pad);
        Conv::primitive_desc desc(what, conv.attr, engine, forward);
        Memory plain(conv.wei, engine, wei);
        bool direct = desc.diff_weights_desc() == conv.wei;
        Memory weights = direct ? plain : Memory(desc.diff_weights_desc(), engine);
        Memory scratch(desc.scratchpad_desc(), engine);
        PrimitiveArgs args = {{DNNL_ARG_SRC, act_in},
                              {DNNL_ARG_DIFF_WEIGHTS, weights},
                              {DNNL_ARG_DIFF_DST, act_out},
                              {DNNL_ARG_SCRATCHPAD, scratch}};
        sequence.add(Conv(desc), args);
        sequence.name(desc.impl_info_str());
        if (!direct) {
            add_reorder(sequence, weights, plain, conv.attr);
        }
    }
}


/*------------------------------------------------------------------------------------------------------------
  One entry: a case and an operation, set up for both libraries
*/

struct Entry {
    ckconv_op op;
    double flop, terms, terms1;   /* terms1: of the second stage, 0 without one */
    BufferPtr in, wei, out, wei1; /* what is read; the written one is in the two below */
    BufferPtr mid;                /* oneDNN's tensor between the two stages */
    BufferPtr dnnl_result, ckconv_result;
    int64_t wei_rows, wei_taps, wei_c; /* weights as [rows][taps][c], ckconv's order */
    SequencePtr sequence;
    WeightOrder order; /* the plain order that suits oneDNN better */
    ckconv_plan plan;
    ckconv_args args;
    std::vector<char> workspace;
};

struct CkconvError : std::runtime_error {
    explicit CkconvError(const std::string &text) : std::runtime_error("ckconv: " + text)
    {
    }
};

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(const std::function<void()> &call)
{
    double start = now();
    call();
    return now() - start;
}

Geometry second_stage(const Case &item)
{
    Geometry v;
    std::memset(&v, 0, sizeof v);
    v.ndim = item.conv.ndim;
    v.g = 1;
    v.n = item.conv.n;
    v.k = item.k1;
    v.c = item.conv.g * item.conv.k;
    for (int i = 0; i < v.ndim; i++) {
        v.filter[i] = v.stride[i] = v.dilation[i] = 1;
        v.input[i] = item.conv.output[i];
    }
    set_output(v);
    return v;
}

void make_tensors(Entry &entry, const Case &item, bool bf16)
{
    const Geometry &v = item.conv;
    entry.in = make_buffer(v.in_count(), bf16);
    entry.wei = make_buffer(v.wei_count(), bf16);
    entry.out = make_buffer(v.out_count(), bf16);
    entry.wei_rows = v.g * v.k;
    entry.wei_taps = v.taps();
    entry.wei_c = v.c;
    entry.flop = v.flop();
    entry.terms = v.terms(entry.op == CKCONV_CONV_CONV_FWD ? (ckconv_op)CKCONV_FWD : entry.op);
    entry.terms1 = 0.0;
    BufferPtr result = entry.op == CKCONV_BWD_DATA     ? entry.in
                       : entry.op == CKCONV_BWD_WEIGHT ? entry.wei
                                                       : entry.out;
    if (entry.op == CKCONV_CONV_CONV_FWD) {
        Geometry second = second_stage(item);
        entry.flop += second.flop();
        entry.terms1 = second.terms(CKCONV_FWD);
        entry.mid = entry.out;
        entry.wei1 = make_buffer(second.wei_count(), bf16);
        fill_normal(*entry.wei1, 4);
        result = make_buffer(second.out_count(), bf16);
    }
    entry.ckconv_result = result;
    entry.dnnl_result = make_buffer(result->count, bf16);
    if (result != entry.in) {
        fill_normal(*entry.in, 1);
    }
    if (result != entry.wei) {
        fill_normal(*entry.wei, 2);
    }
    if (entry.op == CKCONV_BWD_DATA || entry.op == CKCONV_BWD_WEIGHT) {
        fill_normal(*entry.out, 3);
    }
}

SequencePtr make_sequence(const Entry &entry, const Case &item, const dnnl::engine &engine, WeightOrder order,
                          const BufferPtr &wei)
{
    Memory::data_type type = entry.in->bf16 ? Memory::data_type::bf16 : Memory::data_type::f32;
    SequencePtr sequence(new Sequence(engine));
    DnnlConv conv(item.conv, type, order);
    void *in = entry.in->data.get(), *out = entry.out->data.get(), *result = entry.dnnl_result->data.get();
    switch (entry.op) {
    case CKCONV_FWD:
        add_conv(*sequence, CKCONV_FWD, conv, in, wei->data.get(), result);
        break;
    case CKCONV_BWD_DATA:
        add_conv(*sequence, CKCONV_BWD_DATA, conv, result, wei->data.get(), out);
        break;
    case CKCONV_BWD_WEIGHT:
        add_conv(*sequence, CKCONV_BWD_WEIGHT, conv, in, result, out);
        break;
    default: {
        DnnlConv second(second_stage(item), type, order);
        add_conv(*sequence, CKCONV_FWD, conv, in, wei->data.get(), entry.mid->data.get());
        add_conv(*sequence, CKCONV_FWD, second, entry.mid->data.get(), entry.wei1->data.get(), result);
        break;
    }
    }
    return sequence;
}

/* Sets the sequence up in both plain weight orders and keeps the faster one: oneDNN's reorders are not
   equally good at both, and the choice is no part of the comparison. */
void prepare_dnnl(Entry &entry, const Case &item, const dnnl::engine &engine, BufferPtr &oihw)
{
    oihw = transpose_inner(*entry.wei, entry.wei_rows, entry.wei_taps, entry.wei_c);
    double best = 0.0;
    for (int i = 0; i < 2; i++) {
        WeightOrder order = i == 0 ? kOihw : kOhwi;
        SequencePtr sequence = make_sequence(entry, item, engine, order, order == kOihw ? oihw : entry.wei);
        std::function<void()> call = [&sequence]() { sequence->run(); };
        double time = seconds_of(call);
        for (int k = 0; k < 3 && time < kQuick; k++) {
            time = std::min(time, seconds_of(call));
        }
        if (i == 0 || time < best) {
            best = time;
            entry.sequence = std::move(sequence);
            entry.order = order;
        }
        if (entry.wei_taps == 1 || entry.wei_c == 1 || time >= kSlow) {
            break; /* both orders are the same bytes, or a second try would take too long */
        }
    }
}

ckconv_conv_desc describe(const Geometry &v, bool bf16)
{
    ckconv_conv_desc desc;
    std::memset(&desc, 0, sizeof desc);
    desc.ndim = v.ndim;
    desc.g = v.g;
    desc.n = v.n;
    desc.k = v.k;
    desc.c = v.c;
    for (int i = 0; i < v.ndim; i++) {
        desc.filter[i] = v.filter[i];
        desc.input[i] = v.input[i];
        desc.stride[i] = v.stride[i];
        desc.dilation[i] = v.dilation[i];
        desc.pad_lo[i] = desc.pad_hi[i] = v.pad[i];
    }
    desc.in.dtype = bf16 ? CKCONV_BF16 : CKCONV_F32;
    return desc;
}

void prepare_ckconv(Entry &entry, const Case &item, const Options &options)
{
    ckconv_options wish;
    std::memset(&wish, 0, sizeof wish);
    wish.engine = options.engine.empty() ? (ckconv_engine)CKCONV_ENGINE_CPU
                                         : ckconv_engine_from_name(options.engine.c_str());
    wish.threads = options.threads;
    ckconv_conv_desc desc = describe(item.conv, entry.in->bf16);
    ckconv_error error;
    ckconv_status status;
    if (entry.op == CKCONV_CONV_CONV_FWD) {
        ckconv_conv_conv_desc both;
        std::memset(&both, 0, sizeof both);
        both.conv0 = desc;
        both.g1 = 1;
        both.k1 = item.k1;
        status = ckconv_plan_conv_conv(&entry.plan, &both, &wish, nullptr, &error);
    } else {
        status = ckconv_plan_conv(&entry.plan, entry.op, &desc, &wish, nullptr, &error);
    }
    if (status != CKCONV_OK) {
        throw CkconvError(error.text);
    }
    std::memset(&entry.args, 0, sizeof entry.args);
    entry.args.in = entry.in->data.get();
    entry.args.wei = entry.wei->data.get();
    if (entry.op == CKCONV_FWD) {
        entry.args.out = entry.ckconv_result->data.get();
    } else if (entry.op == CKCONV_BWD_DATA) {
        entry.args.in = nullptr;
        entry.args.dout = entry.out->data.get();
        entry.args.din = entry.ckconv_result->data.get();
    } else if (entry.op == CKCONV_BWD_WEIGHT) {
        entry.args.wei = nullptr;
        entry.args.dout = entry.out->data.get();
        entry.args.dwei = entry.ckconv_result->data.get();
    } else {
        entry.args.wei1 = entry.wei1->data.get();
        entry.args.out = entry.ckconv_result->data.get();
    }
    entry.workspace.assign((size_t)entry.plan.workspace_bytes, 0);
}

void run_ckconv(Entry &entry)
{
    ckconv_error error;
    ckconv_status status =
        ckconv_run(&entry.plan, &entry.args, entry.workspace.data(), entry.workspace.size(), nullptr, &error);
    if (status != CKCONV_OK) {
        throw CkconvError(error.text);
    }
}


/*------------------------------------------------------------------------------------------------------------
  Do both compute the same thing?
*/

/* How far two correct results of magnitude |value| may be apart, for standard normal data. A sum of n such
   products, added one by one in f32, is off by a standard deviation of u*n/2.45 (partial sums grow as
   sqrt(i), each rounding adds at most u = 2^-24 of one). Times sqrt(2) for two libraries and 6 sigma for the
   worst of 10^8 elements: 3.5*u*n. The term in |value| covers the tails at small n, the constant covers large
   products that cancel. */
double allowed(const Entry &entry, double value)
{
    const double u = std::ldexp(1.0, -24);
    double n = entry.terms, m = entry.terms1;
    double bound = u * (64.0 + 4.0 * n + 2.0 * std::sqrt(n) * value);
    double ulp = entry.in->bf16 ? std::ldexp(1.0, -7) : 2.0 * u; /* at most, relative */
    if (m > 0.0) {
        /* error of the first stage through m weights, then a sum of m products of size sqrt(n) */
        bound =
            u * (std::sqrt(m) * 4.0 * n + std::sqrt(n) * (64.0 + 4.0 * m) + 2.0 * std::sqrt(n + m) * value);
        if (entry.in->bf16) {
            /* the tensor in between may round the other way twice in one sum: weight and value of 5 sigma */
            bound += 2.0 * 5.0 * 5.0 * std::sqrt(n) * ulp;
        }
    }
    return bound + ulp * value; /* the final rounding, one unit in the last place */
}

/* Largest difference in units of what is allowed: above 1 is a mismatch. NaN counts as infinite. */
double compare(const Entry &entry)
{
    BufferPtr theirs = entry.dnnl_result;
    if (entry.op == CKCONV_BWD_WEIGHT && entry.order == kOihw) {
        theirs = transpose_inner(*theirs, entry.wei_rows, entry.wei_c, entry.wei_taps);
    }
    const Buffer &a = *theirs, &b = *entry.ckconv_result;
    double worst = 0.0;
#pragma omp parallel for schedule(static) reduction(max : worst)
    for (int64_t i = 0; i < a.count; i++) {
        double x = a.at(i), y = b.at(i);
        double part = std::fabs(x - y) / allowed(entry, std::max(std::fabs(x), std::fabs(y)));
        worst = std::max(worst, std::isfinite(part) ? part : HUGE_VAL);
    }
    return worst;
}


/*------------------------------------------------------------------------------------------------------------
  Time
*/

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Seconds that the threads of this process were ready to run and got no core so far, from Linux's schedstat;
   0 where there is none. */
double waited()
{
    double nanoseconds = 0.0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == nullptr) {
        return 0.0;
    }
    while (const struct dirent *task = readdir(tasks)) {
        std::ifstream stat(std::string("/proc/self/task/") + task->d_name + "/schedstat");
        double ran = 0.0, waiting = 0.0;
        if (stat >> ran >> waiting) {
            nanoseconds += waiting;
        }
    }
    closedir(tasks);
    return nanoseconds * 1e-9;
}

struct Contender {
    std::function<void()> call;
    int burst = 1; /* calls per sample */
    double spent = 0.0;
    bool slow = false;
    std::vector<double> clean, disturbed; /* seconds per call; disturbed: another process was in the way */

    void warm_up(const Options &options)
    {
        double time = seconds_of(call);
        slow = time >= kSlow;
        if (slow) {
            disturbed.push_back(time);
            return;
        }
        time = std::min(time, seconds_of(call));
        burst = std::max(1, (int)std::ceil((options.minimum ? kBurst / 10 : kBurst) / std::max(time, 1e-7)));
    }
    void sample()
    {
        if (slow) {
            return;
        }
        double before = waited();
        double start = now();
        for (int i = 0; i < burst; i++) {
            call();
        }
        double time = now() - start;
        spent += time;
        (waited() - before <= kTolerated * time ? clean : disturbed).push_back(time / burst);
    }
    bool is_clean(const Options &options) const
    {
        return slow || clean.size() >= (size_t)options.repeat;
    }
    bool has_enough(const Options &options) const
    {
        return slow || ((is_clean(options) || options.minimum) && spent >= options.seconds);
    }
    /* Seconds per call: the median, or the minimum. */
    double time(bool only_clean, const Options &options) const
    {
        std::vector<double> samples = clean;
        if (!only_clean || slow) {
            samples.insert(samples.end(), disturbed.begin(), disturbed.end());
        }
        return options.minimum ? *std::min_element(samples.begin(), samples.end()) : median(samples);
    }
};

/* Samples of a and b in turn, so that drifts of the machine meet both alike. */
void race(Contender &a, Contender &b, const Options &options)
{
    a.warm_up(options);
    b.warm_up(options);
    for (size_t done = 0; done < kMaxSamples; done++) {
        bool late = a.spent + b.spent >= kPatience * options.seconds && done >= (size_t)options.repeat;
        if (late || (a.has_enough(options) && b.has_enough(options))) {
            return;
        }
        a.sample();
        b.sample();
    }
}


/*------------------------------------------------------------------------------------------------------------
  Report
*/

struct Score {
    std::string label, name;
    ckconv_op op;
    double ratio;
};

struct Report {
    std::vector<Score> scores;
    int mismatches = 0, failures = 0, disturbed = 0;
    std::vector<std::string> left_out;
};

std::string load_average()
{
    double load = 0.0;
    char text[32];
    if (getloadavg(&load, 1) != 1) {
        return "unknown";
    }
    std::snprintf(text, sizeof text, "%.2f", load);
    return text;
}

void print_mean(const Report &report, const char *label, const std::function<bool(const Score &)> &belongs)
{
    double sum = 0.0;
    int count = 0;
    for (const Score &score : report.scores) {
        if (belongs(score)) {
            sum += std::log(std::min(score.ratio, kCap));
            count++;
        }
    }
    if (count > 0) {
        std::printf("# geometric mean, %s: %.3f (%d entries)\n", label, std::exp(sum / count), count);
    }
}

/* Counts all entries below high, names those that are not below low (the next line does). */
void print_below(const Report &report, double low, double high)
{
    std::vector<Score> named;
    int count = 0;
    for (const Score &score : report.scores) {
        count += score.ratio < high ? 1 : 0;
        if (score.ratio >= low && score.ratio < high) {
            named.push_back(score);
        }
    }
    std::sort(named.begin(), named.end(), [](const Score &a, const Score &b) { return a.ratio < b.ratio; });
    std::printf("# below %.1f: %d of %d", high, count, (int)report.scores.size());
    for (size_t i = 0; i < named.size(); i++) {
        std::printf("%s %s %.2f", i == 0 ? ":" : ",", named[i].label.c_str(), named[i].ratio);
    }
    std::printf("\n");
}

void print_summary(const Report &report)
{
    std::printf(
        "# ratio = oneDNN time / ckconv time; above 1 ckconv is faster; each counts for at most %.0f\n",
        kCap);
    print_mean(report, "all entries", [](const Score &) { return true; });
    print_mean(report, "conv rows (fwd, bwd_data, bwd_weight)",
               [](const Score &s) { return s.op != CKCONV_CONV_CONV_FWD; });
    for (int op = CKCONV_FWD; op <= CKCONV_CONV_CONV_FWD; op++) {
        print_mean(report, ckconv_op_name(op), [op](const Score &s) { return s.op == op; });
    }
    print_mean(report, "ResNet-50 rows (r50_*)",
               [](const Score &s) { return s.name.compare(0, 4, "r50_") == 0; });
    print_below(report, 0.5, 0.7);
    print_below(report, 0.0, 0.5);
    std::printf("# left out: %d", (int)report.left_out.size());
    for (size_t i = 0; i < report.left_out.size(); i++) {
        std::printf("%s %s", i == 0 ? ":" : ",", report.left_out[i].c_str());
    }
    std::printf("\n# mismatches: %d, ckconv failures: %d\n", report.mismatches, report.failures);
    std::printf("# entries that other processes disturbed all the time: %d; load average %s\n",
                report.disturbed, load_average().c_str());
}

void print_row(const Case &item, const Entry &entry, const Options &options, double theirs, double ours,
               double error, bool clean)
{
    const char *instance = ckconv_instance_name(entry.plan.instance);
    std::printf("%s\t%s\t%s\t%.1f\t%.1f\t%.3f\t%.1f\t%.1f\t%s\t%s\t%s\t%.2f\t%s\n", item.name.c_str(),
                ckconv_op_name(entry.op), options.dtype.c_str(), theirs * 1e6, ours * 1e6, theirs / ours,
                entry.flop / theirs * 1e-9, entry.flop / ours * 1e-9, instance ? instance : "-",
                entry.sequence->impl.c_str(), entry.order == kOihw ? "oihw" : "ohwi", error,
                clean ? "no" : "yes");
    std::fflush(stdout);
}

void run_entry(const Case &item, ckconv_op op, const Options &options, const dnnl::engine &engine,
               Report &report)
{
    std::string label = item.name + "/" + ckconv_op_name(op);
    Entry entry;
    entry.op = op;
    entry.order = kOihw;
    make_tensors(entry, item, options.dtype == "bf16");
    BufferPtr oihw;
    try {
        prepare_dnnl(entry, item, engine, oihw);
    } catch (const dnnl::error &e) {
        std::printf("# %s: oneDNN cannot: %s\n", label.c_str(), e.what());
        report.left_out.push_back(label);
        return;
    }
    try {
        prepare_ckconv(entry, item, options);
        entry.dnnl_result->poison();
        entry.ckconv_result->poison();
        Contender theirs, ours;
        theirs.call = [&entry]() { entry.sequence->run(); };
        ours.call = [&entry]() { run_ckconv(entry); };
        race(theirs, ours, options);
        double error = compare(entry);
        /* disturbed samples count only where one of the two has too few others, and then for both */
        bool clean = theirs.is_clean(options) && ours.is_clean(options);
        double their_time = theirs.time(clean, options), our_time = ours.time(clean, options);
        print_row(item, entry, options, their_time, our_time, error, clean);
        report.disturbed += clean ? 0 : 1;
        if (error > 1.0) {
            std::printf("# %s: MISMATCH, %.3g times the allowed difference\n", label.c_str(), error);
            report.mismatches++;
            return;
        }
        Score score = {label, item.name, op, their_time / our_time};
        report.scores.push_back(score);
    } catch (const CkconvError &e) {
        std::printf("# %s: FAILED: %s\n", label.c_str(), e.what());
        report.failures++;
    }
}


/*------------------------------------------------------------------------------------------------------------
  Program
*/

/* OpenMP runtimes in this process. With two, waiting threads of one steal time from the other. */
std::string openmp_runtimes()
{
    std::ifstream maps("/proc/self/maps");
    std::string line, found;
    while (std::getline(maps, line)) {
        size_t slash = line.rfind('/');
        std::string file = slash == std::string::npos ? "" : line.substr(slash + 1);
        bool is_openmp = file.compare(0, 7, "libgomp") == 0 || file.compare(0, 6, "libomp") == 0 ||
                         file.compare(0, 8, "libiomp5") == 0;
        if (is_openmp && found.find(file) == std::string::npos) {
            found += (found.empty() ? "" : " ") + file;
        }
    }
    return found.empty() ? "unknown" : found;
}

void print_header(const Options &options)
{
    const dnnl_version_t *version = dnnl_version();
    int32_t mine = ckconv_version();
    std::string runtimes = openmp_runtimes();
    std::printf("# oneDNN %d.%d.%d, ckconv %d.%d.%d, %s, %d threads, OpenMP runtime: %s, load average %s%s\n",
                version->major, version->minor, version->patch, (int)(mine / 10000), (int)(mine / 100 % 100),
                (int)(mine % 100), options.dtype.c_str(), options.threads, runtimes.c_str(),
                load_average().c_str(), options.tiny ? ", tiny problems: the times mean nothing" : "");
    if (runtimes.find(' ') != std::string::npos) {
        std::printf("# two OpenMP runtimes share this process: the times are not comparable\n");
    }
    std::printf(
        "name\top\tdtype\tonednn_us\tckconv_us\tratio\tonednn_gflops\tckconv_gflops\tinstance\tonednn_impl"
        "\tonednn_weights\tdifference\tdisturbed\n");
    std::fflush(stdout);
}

const char kUsage[] =
    "usage: bench_onednn [options] [CASES]      oneDNN against ckconv; CASES: bench/cases.tsv\n"
    "  --filter TEXT   only rows whose name contains TEXT\n"
    "  --op OP         fwd, bwd_data, bwd_weight or conv_conv_fwd only\n"
    "  --dtype T       f32 (default) or bf16\n"
    "  --threads N     of both libraries (2)\n"
    "  --repeat N      samples of each at least (3)\n"
    "  --seconds S     time of each at least (0.3)\n"
    "  --time T        median (default) or minimum of the samples; minimum for a machine that others use "
    "too\n"
    "  --engine E      ckconv's: cpu (default) or ref\n"
    "  --tiny          shrink every problem: a check that both agree, not a measurement\n";

int usage_error(const std::string &text)
{
    std::fprintf(stderr, "bench_onednn: %s (--help lists the options)\n", text.c_str());
    return 2;
}

/* 0: go on, 1: help was printed, 2: error was printed */
int parse_options(int argc, char **argv, Options &options)
{
    for (int i = 1; i < argc; i++) {
        std::string name = argv[i];
        if (name == "--help") {
            std::fputs(kUsage, stdout);
            return 1;
        }
        if (name == "--tiny") {
            options.tiny = true;
            continue;
        }
        if (name.compare(0, 2, "--") != 0) {
            options.cases = name;
            continue;
        }
        if (i + 1 == argc) {
            return usage_error(name + " needs a value");
        }
        std::string value = argv[++i];
        if (name == "--filter") {
            options.filter = value;
        } else if (name == "--op") {
            options.op = value;
        } else if (name == "--dtype") {
            options.dtype = value;
        } else if (name == "--engine") {
            options.engine = value;
        } else if (name == "--threads") {
            options.threads = (int)std::strtol(value.c_str(), nullptr, 10);
        } else if (name == "--repeat") {
            options.repeat = (int)std::strtol(value.c_str(), nullptr, 10);
        } else if (name == "--seconds") {
            options.seconds = std::strtod(value.c_str(), nullptr);
        } else if (name == "--time") {
            options.minimum = value == "minimum";
            if (!options.minimum && value != "median") {
                return usage_error("--time takes median or minimum");
            }
        } else {
            return usage_error("unknown option " + name);
        }
    }
    ckconv_op op = ckconv_op_from_name(options.op.c_str());
    if (!options.op.empty() && (op < CKCONV_FWD || op > CKCONV_CONV_CONV_FWD)) {
        return usage_error("--op takes fwd, bwd_data, bwd_weight or conv_conv_fwd");
    }
    if (options.dtype != "f32" && options.dtype != "bf16") {
        return usage_error("--dtype takes f32 or bf16");
    }
    if (!options.engine.empty() && options.engine != "cpu" && options.engine != "ref") {
        return usage_error("--engine takes cpu or ref");
    }
    if (options.threads < 1 || options.repeat < 1 || !(options.seconds >= 0.0)) {
        return usage_error("--threads and --repeat take 1 or more, --seconds 0 or more");
    }
    return 0;
}

int compare_all(const Options &options)
{
    std::vector<Case> cases = read_cases(options.cases, options.tiny);
    omp_set_dynamic(0);
    omp_set_num_threads(options.threads);
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    print_header(options);
    Report report;
    for (const Case &item : cases) {
        if (item.name.find(options.filter) == std::string::npos) {
            continue;
        }
        if (item.kind == "groupnorm") {
            report.left_out.push_back(item.name + " (oneDNN 2.6 has no group norm)");
            continue;
        }
        int first = item.kind == "conv" ? CKCONV_FWD : CKCONV_CONV_CONV_FWD;
        int last = item.kind == "conv" ? CKCONV_BWD_WEIGHT : CKCONV_CONV_CONV_FWD;
        for (int op = first; op <= last; op++) {
            if (options.op.empty() || ckconv_op_from_name(options.op.c_str()) == op) {
                run_entry(item, op, options, engine, report);
            }
        }
    }
    print_summary(report);
    if (report.scores.empty() && report.mismatches == 0 && report.failures == 0) {
        std::fprintf(stderr, "bench_onednn: nothing was measured\n");
        return 2;
    }
    return report.mismatches == 0 && report.failures == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    int parsed = parse_options(argc, argv, options);
    if (parsed != 0) {
        return parsed == 1 ? 0 : 2;
    }
    try {
        return compare_all(options);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "bench_onednn: %s\n", e.what());
        return 2;
    }
}
