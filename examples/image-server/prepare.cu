// What models that were trained on ImageNet subtract from red, green and blue, and divide them by.
__constant__ float mean[3] = {0.485f, 0.456f, 0.406f};
__constant__ float deviation[3] = {0.229f, 0.224f, 0.225f};

// Resizes an image to a square and normalises it: bytes become floats, and pixels planes of red, green and blue.
__global__ void prepare(const unsigned char *pixels, int width, int height, float *out, int side) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= side || y >= side) return;

  // Where the middle of this pixel is in the image, and the four pixels around it.
  const float atX = fminf(fmaxf((x + 0.5f) * width / side - 0.5f, 0.0f), width - 1.0f);
  const float atY = fminf(fmaxf((y + 0.5f) * height / side - 0.5f, 0.0f), height - 1.0f);
  const int left = (int)atX, right = min(left + 1, width - 1);
  const int top = (int)atY, bottom = min(top + 1, height - 1);

  for (int channel = 0; channel < 3; channel++) {
    const float above = pixels[3 * (top * width + left) + channel] * (left + 1 - atX) +
                        pixels[3 * (top * width + right) + channel] * (atX - left);
    const float below = pixels[3 * (bottom * width + left) + channel] * (left + 1 - atX) +
                        pixels[3 * (bottom * width + right) + channel] * (atX - left);
    const float value = (above * (top + 1 - atY) + below * (atY - top)) / 255;
    out[(channel * side + y) * side + x] = (value - mean[channel]) / deviation[channel];
  }
}
