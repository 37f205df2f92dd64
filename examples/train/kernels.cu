// The elementwise work of the training step. All matrices are dense and row-major; `count` is rows times columns. Launches
// cover at least as many threads as there is work, so every kernel looks first whether it has any.

static __device__ int thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// A number that differs from step to step: the one on the device, if there is an address, otherwise the argument.
static __device__ unsigned int number(const unsigned int *at, unsigned int value) { return at ? *at : value; }
static __device__ float number(const float *at, float value) { return at ? *at : value; }

// A place outside the order, and a row number outside the table, give zeros: the host cannot look at what is on the device.
extern "C" __global__ void gather(float *out, const float *table, const unsigned int *order, const unsigned int *start_at,
                                  unsigned int start, int order_len, int table_rows, int columns, int count) {
    int i = thread_index();
    if (i >= count) return;
    unsigned int place = number(start_at, start) + i / columns;
    unsigned int row = place < (unsigned int)order_len ? order[place] : (unsigned int)table_rows;
    out[i] = row < (unsigned int)table_rows ? table[(size_t)row * columns + i % columns] : 0.0f;
}

extern "C" __global__ void add_bias(float *x, const float *bias, int columns, int count) {
    int i = thread_index();
    if (i < count) x[i] += bias[i % columns];
}

extern "C" __global__ void relu(float *out, const float *x, int count) {
    int i = thread_index();
    if (i < count) out[i] = fmaxf(x[i], 0.0f);
}

extern "C" __global__ void relu_gradient(float *out, const float *output, const float *gradient, int count) {
    int i = thread_index();
    if (i < count) out[i] = output[i] > 0.0f ? gradient[i] : 0.0f;
}

// One thread for each row.
extern "C" __global__ void softmax_cross_entropy(float *gradient, float *losses, const float *logits, const float *targets,
                                                 const unsigned int *start_at, unsigned int start, int losses_len,
                                                 int rows, int columns) {
    int row = thread_index();
    if (row >= rows) return;
    size_t first = (size_t)row * columns;
    float largest = logits[first];
    for (int j = 1; j < columns; ++j) largest = fmaxf(largest, logits[first + j]);
    float sum = 0.0f;
    for (int j = 0; j < columns; ++j) sum += expf(logits[first + j] - largest);
    float loss = 0.0f;
    for (int j = 0; j < columns; ++j) {
        float shifted = logits[first + j] - largest;
        float target = targets[first + j];
        gradient[first + j] = (expf(shifted) / sum - target) / rows;
        loss -= target * (shifted - logf(sum));
    }
    unsigned int place = number(start_at, start) + row;
    if (place < (unsigned int)losses_len) losses[place] = loss;
}

// A block of 32 x 8 threads adds up 32 columns, each in 8 parts: neighbouring threads read neighbouring columns.
extern "C" __global__ void sum_rows(float *out, const float *x, int rows, int columns) {
    __shared__ float parts[8][32];
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (column < columns) {
        for (int row = threadIdx.y; row < rows; row += 8) sum += x[(size_t)row * columns + column];
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int part = 1; part < 8; ++part) sum += parts[part][threadIdx.x];
        out[column] = sum;
    }
}

// One element's step of Adam, from the old arrays to the new ones, which may be the old ones. The two kernels share it, so that
// they round alike.
static __device__ void adam_element(float *new_value, float *new_mean, float *new_square, const float *value,
                                    const float *mean, const float *square, const float *gradient, float rate,
                                    float mean_decay, float square_decay, float epsilon, int i) {
    float g = gradient[i];
    float m = mean[i] + (1.0f - mean_decay) * (g - mean[i]);
    float s = square[i] + (1.0f - square_decay) * (g * g - square[i]);
    new_mean[i] = m;
    new_square[i] = s;
    new_value[i] = value[i] - rate * m / (sqrtf(s) + epsilon);
}

extern "C" __global__ void adam(float *value, float *mean, float *square, const float *gradient,
                                const float *rate_at, float rate, float mean_decay, float square_decay, float epsilon,
                                int count) {
    int i = thread_index();
    if (i >= count) return;
    adam_element(value, mean, square, value, mean, square, gradient, number(rate_at, rate), mean_decay, square_decay,
                 epsilon, i);
}

extern "C" __global__ void moved_by_adam(float *new_value, float *new_mean, float *new_square, const float *value,
                                         const float *mean, const float *square, const float *gradient,
                                         const float *rate_at, float rate, float mean_decay, float square_decay,
                                         float epsilon, int count) {
    int i = thread_index();
    if (i >= count) return;
    adam_element(new_value, new_mean, new_square, value, mean, square, gradient, number(rate_at, rate), mean_decay,
                 square_decay, epsilon, i);
}
