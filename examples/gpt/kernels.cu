// The kernels of the training step, except matrix products. All tables are dense and row-major; `count` is rows times columns.
// Elementwise launches have at least as many threads as there are numbers, so each of these kernels first checks whether its
// thread has a number. The others have one block of THREADS threads for each row, in the grid's first dimension. The order of each
// sum depends only on the shapes, and no atomics are used: the same numbers give the same bits.

#define THREADS 256
#define NORM_EPSILON 1e-5f

typedef unsigned long long u64;

static __device__ u64 thread_index() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }

// Returns the sum of one number per thread to all threads.
static __device__ float block_sum(float x) {
    __shared__ float parts[THREADS];
    parts[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    float sum = parts[0];
    __syncthreads();
    return sum;
}

// Returns the maximum of one number per thread to all threads.
static __device__ float block_max(float x) {
    __shared__ float parts[THREADS];
    parts[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + half]);
        __syncthreads();
    }
    float largest = parts[0];
    __syncthreads();
    return largest;
}

// Number `place` of SplitMix64, as 24 bits around zero: exact in a float, and so is the product with a power of two.
extern "C" __global__ void uniform(float *out, u64 key, float limit, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    u64 x = key + (i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    out[i] = limit * (float)((int)(x >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

extern "C" __global__ void add(float *sum, const float *x, u64 count) {
    u64 i = thread_index();
    if (i < count) sum[i] += x[i];
}

extern "C" __global__ void add_bias(float *x, const float *bias, u64 columns, u64 count) {
    u64 i = thread_index();
    if (i < count) x[i] += bias[i % columns];
}

// A block of 32 x 8 threads sums 32 columns, each in 8 parts. Neighbouring threads read neighbouring columns.
extern "C" __global__ void sum_rows(float *out, const float *x, u64 rows, u64 columns) {
    __shared__ float parts[8][32];
    u64 column = blockIdx.x * (u64)32 + threadIdx.x;
    float sum = 0.0f;
    if (column < columns) {
        for (u64 row = threadIdx.y; row < rows; row += 8) sum += x[row * columns + column];
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int part = 1; part < 8; ++part) sum += parts[part][threadIdx.x];
        out[column] = sum;
    }
}

#define ROOT 0.7978846f
#define CUBE 0.044715f

extern "C" __global__ void gelu(float *out, const float *x, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    float at = x[i];
    out[i] = 0.5f * at * (1.0f + tanhf(ROOT * (at + CUBE * at * at * at)));
}

extern "C" __global__ void gelu_gradient(float *gradient, const float *x, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    float at = x[i];
    float t = tanhf(ROOT * (at + CUBE * at * at * at));
    gradient[i] *= 0.5f * (1.0f + t) + 0.5f * at * (1.0f - t * t) * ROOT * (1.0f + 3.0f * CUBE * at * at);
}

// The mean of a row, and the factor that scales distances from the mean.
struct Moments {
    float mean;
    float scale;
};

static __device__ Moments moments_of(const float *x, u64 columns) {
    float sum = 0.0f;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) sum += x[j];
    Moments moments;
    moments.mean = block_sum(sum) / (float)columns;
    float squares = 0.0f;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) squares += (x[j] - moments.mean) * (x[j] - moments.mean);
    moments.scale = 1.0f / sqrtf(block_sum(squares) / (float)columns + NORM_EPSILON);
    return moments;
}

extern "C" __global__ void layer_norm(float *out, const float *x, const float *gain, const float *bias, u64 columns) {
    u64 first = blockIdx.x * columns;
    Moments moments = moments_of(x + first, columns);
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        out[first + j] = (x[first + j] - moments.mean) * moments.scale * gain[j] + bias[j];
    }
}

extern "C" __global__ void layer_norm_gradient(float *sum, const float *x, const float *gain, const float *gradient,
                                               u64 columns) {
    u64 first = blockIdx.x * columns;
    Moments moments = moments_of(x + first, columns);
    float mean = 0.0f, along = 0.0f;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        float behind = gain[j] * gradient[first + j];
        mean += behind;
        along += behind * (x[first + j] - moments.mean) * moments.scale;
    }
    mean = block_sum(mean) / (float)columns;
    along = block_sum(along) / (float)columns;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        float normalized = (x[first + j] - moments.mean) * moments.scale;
        sum[first + j] += moments.scale * (gain[j] * gradient[first + j] - mean - normalized * along);
    }
}

extern "C" __global__ void normalized_product(float *out, const float *x, const float *gradient, u64 columns) {
    u64 first = blockIdx.x * columns;
    Moments moments = moments_of(x + first, columns);
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        out[first + j] = (x[first + j] - moments.mean) * moments.scale * gradient[first + j];
    }
}

// Number `i` is number `i % width` of row `i / width`. The rows are those of the split table in the first kernel. In the second one,
// they are those of the merged table, with one row per head.
extern "C" __global__ void split_heads(float *out, const float *x, u64 context, u64 heads, u64 width, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    u64 row = i / width;
    u64 table = row / context, token = row % context;
    u64 sequence = table / heads, head = table % heads;
    out[i] = x[((sequence * context + token) * heads + head) * width + i % width];
}

extern "C" __global__ void merge_heads(float *out, const float *x, u64 context, u64 heads, u64 width, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    u64 row = i / width;
    u64 place = row / heads, head = row % heads;
    u64 sequence = place / context, token = place % context;
    out[i] = x[((sequence * heads + head) * context + token) * width + i % width];
}

// Each thread reads only columns that it wrote itself.
extern "C" __global__ void causal_softmax(float *scores, u64 columns) {
    float *row = scores + blockIdx.x * columns;
    u64 seen = blockIdx.x % columns + 1;
    float largest = row[0];
    for (u64 j = threadIdx.x; j < seen; j += THREADS) largest = fmaxf(largest, row[j]);
    largest = block_max(largest);
    float sum = 0.0f;
    for (u64 j = threadIdx.x; j < seen; j += THREADS) {
        row[j] = expf(row[j] - largest);
        sum += row[j];
    }
    sum = block_sum(sum);
    for (u64 j = threadIdx.x; j < columns; j += THREADS) row[j] = j < seen ? row[j] / sum : 0.0f;
}

extern "C" __global__ void softmax_gradient(float *gradient, const float *probabilities, u64 columns) {
    u64 first = blockIdx.x * columns;
    float mean = 0.0f;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) mean += probabilities[first + j] * gradient[first + j];
    mean = block_sum(mean);
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        gradient[first + j] = probabilities[first + j] * (gradient[first + j] - mean);
    }
}

// A token outside the table counts as zeros, because the host cannot check tokens in device memory.
extern "C" __global__ void embed(float *out, const unsigned *tokens, const float *table, const float *positions,
                                 u64 vocabulary, u64 context, u64 columns, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    u64 row = i / columns, column = i % columns;
    u64 token = tokens[row];
    float found = token < vocabulary ? table[token * columns + column] : 0.0f;
    out[i] = found + positions[row % context * columns + column];
}

// One thread for each number of the table visits all tokens, in their order.
extern "C" __global__ void embed_gradient(float *out, const unsigned *tokens, const float *gradient, u64 rows, u64 columns,
                                          u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    u64 token = i / columns, column = i % columns;
    float sum = 0.0f;
    for (u64 row = 0; row < rows; ++row) {
        if (tokens[row] == token) sum += gradient[row * columns + column];
    }
    out[i] = sum;
}

extern "C" __global__ void cross_entropy(float *losses, float *gradient, const float *logits, const unsigned *targets,
                                         float share, u64 columns) {
    u64 first = blockIdx.x * columns;
    float largest = logits[first];
    for (u64 j = threadIdx.x; j < columns; j += THREADS) largest = fmaxf(largest, logits[first + j]);
    largest = block_max(largest);
    float sum = 0.0f;
    for (u64 j = threadIdx.x; j < columns; j += THREADS) sum += expf(logits[first + j] - largest);
    sum = block_sum(sum);
    u64 target = targets[blockIdx.x];
    for (u64 j = threadIdx.x; j < columns; j += THREADS) {
        float hit = j == target ? 1.0f : 0.0f;
        gradient[first + j] = share * (expf(logits[first + j] - largest) / sum - hit);
    }
    // A target outside the vocabulary counts as no target.
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) - (target < columns ? logits[first + target] - largest : 0.0f);
}

// Updates a part of each array.
extern "C" __global__ void adamw(float *values, float *means, float *squares, const float *gradients, float rate, float decay,
                                 float mean_decay, float square_decay, float epsilon, u64 value_at, u64 moments_at,
                                 u64 gradient_at, u64 count) {
    u64 i = thread_index();
    if (i >= count) return;
    float *value = values + value_at, *mean = means + moments_at, *square = squares + moments_at;
    float g = gradients[gradient_at + i];
    float m = mean[i] + (1.0f - mean_decay) * (g - mean[i]);
    float s = square[i] + (1.0f - square_decay) * (g * g - square[i]);
    mean[i] = m;
    square[i] = s;
    value[i] -= decay * value[i] + rate * m / (sqrtf(s) + epsilon);
}

extern "C" __global__ void copy_part(float *to, u64 to_at, const float *from, u64 from_at, u64 count) {
    u64 i = thread_index();
    if (i < count) to[to_at + i] = from[from_at + i];
}
