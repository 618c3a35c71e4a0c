/** Kernels with a host implementation, kernels of a module, and work of other libraries. */
import { type Module, Program } from 'cuda-streams'
import type { Action, Client } from '../client.js'
import { add, addModel, affine, affineModel, mirror, mirrorModel } from '../kernels.js'
import { queueForeignFill } from '../libcuda.js'
import { modelOf, type Piece } from '../pieces.js'
import { codeOf } from '../tracker.js'

/** A host implementation runs thread by thread: longer pieces are for what runs all threads at once. */
const MOST_THREADS = 4096

function launchAffine(client: Client): void {
  const { random } = client
  const part = client.anyPart()
  if (part.length === 0) return
  const [more, block] = [random.below(256), random.one([32, 100, 256, 1024])]
  const grid = random.chance(0.5) ? Math.ceil(part.length / block) : ([Math.ceil(part.length / block), 1, 1] as const)
  client.use(client.track(), { writes: [part.piece] }, (stream) => {
    stream.launch(affine, { grid, block, sharedMemory: random.one([0, 1024]) }, client.slice(part), part.length, more)
  })
  affineModel(modelOf(part), more)
}

function launchAdd(client: Client): void {
  const { random } = client
  const [to, from] = [client.piece(), client.piece()]
  if (to === from) return
  const length = Math.min(to.length, from.length)
  client.use(client.track(), { reads: [from], writes: [to] }, (stream) => {
    stream.launch(add, { grid: random.between(1, 8), block: 128 }, to.buffer, from.buffer, BigInt(length))
  })
  addModel(to.model.subarray(0, length), from.model.slice())
}

function launchMirror(client: Client): void {
  const { random } = client
  const block = random.one([2, 32, 64, 256])
  const piece = client.piece(
    ({ length }) => length >= 256,
    () => client.newPiece('device', 4096),
  )
  const grid = Math.min(Math.floor(piece.length / block), Math.floor(MOST_THREADS / block))
  client.use(client.track(), { writes: [piece] }, (stream) => void stream.launch(mirror, { grid, block }, piece.buffer))
  mirrorModel(piece.model.subarray(0, grid * block), block)
}

/** Another library's call, by CUDA's own handle; the simulator does the same in JavaScript. */
function external(client: Client): void {
  const { random } = client
  const part = client.anyPart(
    client.piece(
      (piece) => isNear(client, piece),
      () => client.newPiece('pinned'),
    ),
  )
  if (part.length === 0) return
  const value = random.below(256)
  const track = client.track(part.piece.device)
  client.use(track, { writes: [part.piece] }, (stream) => {
    const buffer = client.slice(part)
    const simulate = ([bytes]: readonly Uint8Array[]): void => void bytes?.fill(value)
    stream.external({ name: 'foreign fill', memory: [{ buffer, access: 'out' }], simulate }, (handle) => {
      if (!client.machine.isSimulated) queueForeignFill(buffer.pointer, value, part.length, handle)
    })
  })
  modelOf(part).fill(value)
}

const isNear = ({ machine }: Client, { device, isPinned }: Piece): boolean => isPinned || device === machine.device

const SOURCE = `extern "C" __global__ void flip(unsigned char* bytes, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) bytes[i] = ~bytes[i];
}`

/** CUDA waits for the whole device when code is loaded: other threads that never pause keep it from being begun. */
async function loadedWherePaused({ machine, tracker }: Client): Promise<Module | undefined> {
  try {
    return await Program.compile(SOURCE, { device: machine.device })
  } catch (error) {
    // Without NVRTC nothing can be compiled for the simulator.
    if (codeOf(error) === 'ERR_UNSUPPORTED' && machine.isSimulated) return undefined
    if (codeOf(error) !== 'ERR_DEADLOCK' || machine.isAlone) throw error
    tracker.counts.deadlocks += 1
    return undefined
  }
}

/** A module is compiled, loaded, used and closed while its kernel is queued. */
async function playModule(client: Client): Promise<void> {
  const { machine } = client
  const loaded = await loadedWherePaused(client)
  if (loaded === undefined) return
  const flip = loaded.kernel('flip', ['inout u8*', 'i32'])
  const piece = client.piece(
    (each) => isNear(client, each),
    () => client.newPiece('pinned'),
  )
  client.use(client.track(machine.device), { writes: [piece] }, (stream) => {
    stream.launch(flip, { grid: Math.ceil(piece.length / 256), block: 256 }, piece.buffer, piece.length)
  })
  for (const [at, byte] of piece.model.entries()) piece.model[at] = ~byte
  loaded.close()
  client.refused('a kernel of a closed module', 'ERR_CLOSED', () => {
    client.track(machine.device).stream.launch(flip, { grid: 1, block: 1 }, piece.buffer, 0)
  })
}

export const kernelActions: readonly Action[] = [
  { name: 'affine', weight: 5, play: launchAffine },
  { name: 'add', weight: 4, play: launchAdd },
  { name: 'mirror', weight: 1, play: launchMirror },
  { name: 'external', weight: 2, play: external },
  { name: 'module', weight: 0.05, play: playModule },
]
