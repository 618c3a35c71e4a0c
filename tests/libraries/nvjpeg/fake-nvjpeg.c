/* Pretends to be nvJPEG: writes down what it is asked, reads the files that it is given, and has a file for what it encodes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define X(pointer) ((unsigned long)(uintptr_t)(pointer))

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int next_status;
void fake_count(int more);
static int answer(void) {
  int status = next_status;
  next_status = 0;
  return status;
}

typedef struct {
  unsigned char *channel[4];
  size_t pitch[4];
} Image;

/* States are numbers, so that it is seen which one is used. */
static int made;
static int make(void **where, const char *what) {
  int status = answer();
  if (status != 0) return status;
  *where = (void *)(uintptr_t)(made += 1);
  fake_count(1);
  say("create %s %d\n", what, made);
  return 0;
}
void fake_nvjpeg_again(size_t count) { made = (int)count; }

int nvjpegCreateSimple(void **handle) { return make(handle, "handle"); }

static int hardware;
void fake_nvjpeg_hardware(size_t is) { hardware = (int)is; }

int nvjpegCreateEx(int backend, void *allocator, void *pinned, unsigned flags, void **handle) {
  (void)allocator;
  (void)pinned;
  if (!hardware) return 7;
  say("backend %d, flags %u\n", backend, flags);
  return make(handle, "handle");
}
int nvjpegDestroy(void *handle) {
  fake_count(-1);
  say("destroy handle %lu\n", X(handle));
  return 0;
}
int nvjpegGetProperty(int part, int *value) {
  *value = part + 13;
  return 0;
}
int nvjpegJpegStateCreate(void *handle, void **state) {
  (void)handle;
  return make(state, "decoder");
}
int nvjpegJpegStateDestroy(void *state) {
  fake_count(-1);
  say("destroy decoder %lu\n", X(state));
  return 0;
}

static void say_image(const Image *image) {
  for (int i = 0; i < 4; i += 1)
    if (image->channel[i] != NULL) say(" %lx+%zu", X(image->channel[i]), image->pitch[i]);
}
static void say_file(const unsigned char *file, size_t length) {
  say(" %zu bytes %02x%02x..%02x%02x", length, file[0], file[1], file[length - 2], file[length - 1]);
}

/* What is added to the widths of files. */
static int wider;
void fake_nvjpeg_wider(size_t by) { wider = (int)by; }

int nvjpegGetImageInfo(void *handle, const unsigned char *file, size_t length, int *components, int *subsampling,
                       int *widths, int *heights) {
  (void)handle;
  size_t at = 2;
  while (at + 10 < length && file[at + 1] != 0xc0 && file[at + 1] != 0xc2) at += 2 + file[at + 2] * 256u + file[at + 3];
  *components = file[at + 9];
  *subsampling = 0;
  heights[0] = file[at + 5] * 256 + file[at + 6];
  widths[0] = file[at + 7] * 256 + file[at + 8] + wider;
  return 0;
}
int nvjpegDecode(void *handle, void *state, const unsigned char *file, size_t length, int format, Image *image,
                 void *stream) {
  say("decode %lu/%lu", X(handle), X(state));
  say_file(file, length);
  say(" as %d:", format);
  say_image(image);
  say(" on %lx\n", X(stream));
  return answer();
}
int nvjpegDecodeBatchedInitialize(void *handle, void *state, int size, int threads, int format) {
  say("batch %lu/%lu of %d, %d thread, as %d\n", X(handle), X(state), size, threads, format);
  return answer();
}
int nvjpegDecodeBatched(void *handle, void *state, const unsigned char *const *files, const size_t *lengths,
                        Image *images, void *stream) {
  (void)handle;
  say("decode %lu", X(state));
  for (int i = 0; i < 2; i += 1) {
    say_file(files[i], lengths[i]);
    say(":");
    say_image(images + i);
  }
  say(" on %lx\n", X(stream));
  return 0;
}

int nvjpegEncoderStateCreate(void *handle, void **state, void *stream) {
  (void)handle;
  (void)stream;
  return make(state, "encoder");
}
int nvjpegEncoderStateDestroy(void *state) {
  fake_count(-1);
  say("destroy encoder %lu\n", X(state));
  return 0;
}
int nvjpegEncoderParamsCreate(void *handle, void **params, void *stream) {
  (void)handle;
  (void)stream;
  return make(params, "parameters");
}
int nvjpegEncoderParamsDestroy(void *params) {
  fake_count(-1);
  say("destroy parameters %lu\n", X(params));
  return 0;
}
int nvjpegEncoderParamsSetQuality(void *params, int quality, void *stream) {
  (void)stream;
  say("quality %lu %d\n", X(params), quality);
  return answer();
}
int nvjpegEncoderParamsSetSamplingFactors(void *params, int subsampling, void *stream) {
  (void)stream;
  say("subsampling %lu %d\n", X(params), subsampling);
  return 0;
}
static int encode(const char *what, void *state, void *params, const Image *image, int format, int width, int height,
                  void *stream) {
  say("encode%s %lu/%lu", what, X(state), X(params));
  say_image(image);
  say(" as %d %dx%d on %lx\n", format, width, height, X(stream));
  return answer();
}
int nvjpegEncodeImage(void *handle, void *state, void *params, const Image *image, int format, int width, int height,
                      void *stream) {
  (void)handle;
  return encode("Image", state, params, image, format, width, height, stream);
}
int nvjpegEncodeYUV(void *handle, void *state, void *params, const Image *image, int subsampling, int width, int height,
                    void *stream) {
  (void)handle;
  return encode("YUV", state, params, image, subsampling, width, height, stream);
}
int nvjpegEncodeRetrieveBitstream(void *handle, void *state, unsigned char *data, size_t *length, void *stream) {
  (void)handle;
  (void)stream;
  static const unsigned char file[] = {0xff, 0xd8, 1, 2, 3, 0xff, 0xd9};
  say("retrieve %lu %s\n", X(state), data == NULL ? "length" : "file");
  *length = sizeof file;
  if (data != NULL) memcpy(data, file, sizeof file);
  return answer();
}
