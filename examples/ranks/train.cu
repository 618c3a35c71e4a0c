// Linear regression, one thread for each sample: the gradient of the squared error, summed by atomics.
extern "C" __global__ void gradient(const float *inputs, const float *targets, const float *weights, float *sums, int samples,
                                    int features) {
  int sample = blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= samples) return;
  const float *input = inputs + sample * features;
  float error = -targets[sample];
  for (int feature = 0; feature < features; feature++) error += weights[feature] * input[feature];
  for (int feature = 0; feature < features; feature++) atomicAdd(&sums[feature], error * input[feature]);
  atomicAdd(&sums[features], error * error);
}

// One step down the gradient, which is cleared for the next.
extern "C" __global__ void descend(float *weights, float *sums, float rate, int features) {
  int feature = blockIdx.x * blockDim.x + threadIdx.x;
  if (feature < features) weights[feature] -= rate * sums[feature];
  if (feature <= features) sums[feature] = 0;
}
