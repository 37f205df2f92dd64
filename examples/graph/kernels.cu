// The elementwise work of the decoder's step. All matrices are dense and row-major.

static __device__ int thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// A token outside the table gives zeros: the host cannot look at the tokens.
extern "C" __global__ void embed(float *out, const unsigned int *tokens, const float *table, int table_rows, int columns,
                                 int count) {
    int i = thread_index();
    if (i >= count) return;
    unsigned int row = tokens[i / columns];
    out[i] = row < (unsigned int)table_rows ? table[(size_t)row * columns + i % columns] : 0.0f;
}

// One block of 256 threads for each row.
extern "C" __global__ void normalize(float *out, const float *x, int columns) {
    __shared__ float parts[256];
    size_t first = (size_t)blockIdx.x * columns;
    float squares = 0.0f;
    for (int j = threadIdx.x; j < columns; j += 256) squares += x[first + j] * x[first + j];
    parts[threadIdx.x] = squares;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    float scale = rsqrtf(parts[0] / columns + 1e-6f);
    for (int j = threadIdx.x; j < columns; j += 256) out[first + j] = scale * x[first + j];
}

extern "C" __global__ void activate(float *out, float *state, const float *product, const float *x, int count) {
    int i = thread_index();
    if (i >= count) return;
    float y = product[i];
    float gelu = 0.5f * y * (1.0f + tanhf(0.7978846f * (y + 0.044715f * y * y * y)));
    float s = 0.5f * state[i] + gelu;
    state[i] = s;
    out[i] = x[i] + s;
}

// One block of 256 threads for each row. Of equal numbers the first one is taken.
extern "C" __global__ void pick(unsigned int *out, const float *x, int columns) {
    __shared__ float values[256];
    __shared__ int places[256];
    size_t first = (size_t)blockIdx.x * columns;
    float value = __int_as_float(0xff800000); // minus infinity, for which this compiler has no name
    int place = 0;
    for (int j = threadIdx.x; j < columns; j += 256) {
        if (x[first + j] > value) {
            value = x[first + j];
            place = j;
        }
    }
    values[threadIdx.x] = value;
    places[threadIdx.x] = place;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = values[threadIdx.x + half];
            int there = places[threadIdx.x + half];
            if (other > values[threadIdx.x] || (other == values[threadIdx.x] && there < places[threadIdx.x])) {
                values[threadIdx.x] = other;
                places[threadIdx.x] = there;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = places[0];
}
