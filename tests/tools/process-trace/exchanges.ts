/**
 * Exchanges of memory between this library and PyTorch, CuPy or plain CUDA C++, each with a missing wait, and the same with it:
 * `exchanges.js racy|right [LIBRARY.so]`. It prints the names of those it has played.
 */
import { Device, DeviceBuffer, ExternalStream, type PinnedBuffer, Stream } from 'cuda-streams'
import { Python } from 'cuda-streams/python'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { affine } from '../../soak/kernels.js'

const BYTES = 4 * 2 ** 20
const [, , variant, plain] = process.argv
const isRight = variant === 'right'

interface Partner {
  readonly stream: Stream
  /** Its array. */
  readonly memory: DeviceBuffer
  kernel(): unknown
  read(): unknown
  fill(): unknown
  upload(): unknown
}

const device = Device.get()
const python = Python.start()
python.run(`
import torch, cupy
class PyTorch:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.x, self.host = torch.ones(1 << 20, device='cuda'), torch.ones(1 << 20).pin_memory()
        self.handle, self.pointer = self.stream.cuda_stream, self.x.data_ptr()
        torch.cuda.synchronize()
    def kernel(self):
        with torch.cuda.stream(self.stream): self.x.mul_(2)
    def read(self):
        with torch.cuda.stream(self.stream): self.y = self.x + 1
    def fill(self):
        with torch.cuda.stream(self.stream): self.x.zero_()
    def upload(self):
        with torch.cuda.stream(self.stream): self.x.copy_(self.host, non_blocking=True)
class CuPy:
    def __init__(self):
        import cupyx
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.x, self.host = cupy.ones(1 << 20, dtype=cupy.float32), cupyx.empty_pinned(1 << 20, dtype=cupy.float32)
        self.handle, self.pointer = self.stream.ptr, self.x.data.ptr
        cupy.cuda.runtime.deviceSynchronize()
    def kernel(self):
        with self.stream: self.x *= 2
    def read(self):
        with self.stream: self.y = self.x + 1
    def fill(self):
        self.x.data.memset_async(0, 4 << 20, self.stream)
    def upload(self):
        self.x.set(self.host, stream=self.stream)
`)

function ofPython(name: string): Partner {
  const object = python.evaluate(`${name}()`)
  const stream = new ExternalStream(object.get('handle').bigint(), { owner: object })
  const memory = DeviceBuffer.from(object.get('pointer').bigint(), BYTES, { device, owner: object })
  const act = (method: string) => (): unknown => object.invoke(method)
  return { stream, memory, kernel: act('kernel'), read: act('read'), fill: act('fill'), upload: act('upload') }
}

function ofPlain(path: string): Partner {
  const calls = SharedLibrary.open(path).functions({
    plain_start: 'void **handle, float **array',
    plain_kernel: 'int unused',
    plain_read: 'int unused',
    plain_fill: 'int unused',
    plain_upload: 'int unused',
  })
  const out = new NativeMemory(16)
  calls.plain_start(out.address, out.address + 8)
  const stream = new ExternalStream(BigInt(out.pointerAt(0)))
  const memory = DeviceBuffer.from(BigInt(out.pointerAt(8)), BYTES, { device })
  const { plain_kernel, plain_read, plain_fill, plain_upload } = calls
  return {
    stream,
    memory,
    kernel: () => plain_kernel(0),
    read: () => plain_read(0),
    fill: () => plain_fill(0),
    upload: () => plain_upload(0),
  }
}

type Exchange = (ours: Stream, theirs: Partner, pinned: PinnedBuffer) => unknown

/** The wait of one for the other, in the right variant. */
const order = (later: Stream, earlier: Stream): unknown => (isRight ? later.wait(earlier) : undefined)
const compute = (stream: Stream, memory: DeviceBuffer): unknown =>
  stream.launch(affine, { grid: 4096, block: 256 }, memory, 4096 * 256, 1)

const EXCHANGES: Readonly<Record<string, Exchange>> = {
  theirsReadsWhatOurKernelWrites(ours, theirs) {
    compute(ours, theirs.memory)
    order(theirs.stream, ours)
    theirs.read()
  },
  ourKernelReadsWhatTheirsWrites(ours, theirs) {
    theirs.kernel()
    order(ours, theirs.stream)
    compute(ours, theirs.memory)
  },
  theirsReadsWhatWeUpload(ours, theirs, pinned) {
    ours.copy(theirs.memory, pinned)
    order(theirs.stream, ours)
    theirs.read()
  },
  weDownloadWhatTheirsFills(ours, theirs, pinned) {
    theirs.fill()
    order(ours, theirs.stream)
    ours.copy(pinned, theirs.memory)
  },
  weFillWhatTheirsStillReads(ours, theirs) {
    theirs.read()
    order(ours, theirs.stream)
    ours.fill(theirs.memory, 0)
  },
  theirsReadsWhatOurGraphWrites(ours, theirs) {
    using graph = ours.capture(() => compute(ours, theirs.memory))
    using exec = graph.instantiate()
    ours.launch(exec)
    order(theirs.stream, ours)
    theirs.read()
    device.synchronize()
  },
  weCopyWhatTheirsUploads(ours, theirs, pinned) {
    theirs.upload()
    order(ours, theirs.stream)
    ours.copy(pinned, theirs.memory)
  },
}

const partners: Readonly<Record<string, Partner>> = {
  PyTorch: ofPython('PyTorch'),
  CuPy: ofPython('CuPy'),
  ...(plain === undefined ? {} : { plain: ofPlain(plain) }),
}
await affine.prepare(device)
for (const [library, theirs] of Object.entries(partners)) {
  for (const [name, exchange] of Object.entries(EXCHANGES)) {
    using ours = new Stream({ device })
    using pinned = device.allocPinned(BYTES)
    device.synchronize()
    exchange(ours, theirs, pinned)
    await device.finished()
    console.log(`${library} ${name}`)
  }
}
