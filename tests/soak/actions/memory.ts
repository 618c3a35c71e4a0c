/** Memory is made, filled, copied in every direction, moved from and to ordinary arrays, looked at, and given back. */
import type { Bytes } from 'cuda-streams'
import type { Action, Client } from '../client.js'
import { affine, affineModel } from '../kernels.js'
import { modelOf, type Part, type Piece, type PieceKind } from '../pieces.js'

const WIDTHS = [1, 2, 4] as const
const MIB = 2 ** 20
const KINDS: readonly PieceKind[] = ['device', 'pinned', 'foreign', 'interprocess']

const isFree = ({ held }: Piece): boolean => held === 0

function fill(client: Client): void {
  const { random } = client
  const width = random.one(WIDTHS)
  const part = aligned(client.anyPart(), width)
  const value = random.bits() % 2 ** (8 * width)
  const given = random.chance(0.3) ? value - 2 ** (8 * width - 1) : value
  const stored = given < 0 ? given + 2 ** (8 * width) : given
  client.use(client.track(), { writes: [part.piece], empty: part.length === 0 }, (stream) => {
    if (width === 1 && random.chance(0.7)) stream.fill(client.slice(part), given)
    else stream.fill(client.slice(part), given, { width })
  })
  const model = modelOf(part)
  const view = new DataView(model.buffer, model.byteOffset, model.length)
  for (let at = 0; at < part.length; at += width) {
    if (width === 1) view.setUint8(at, stored)
    else if (width === 2) view.setUint16(at, stored, true)
    else view.setUint32(at, stored, true)
  }
}

/** Where values of this width fit. */
function aligned({ piece, from, length }: Part, width: number): Part {
  const start = from - (from % width)
  const room = Math.min(length, piece.length - start)
  return { piece, from: start, length: room - (room % width) }
}

/** Two parts of one length, of different pieces or of one, which then do not overlap. */
function partsFor(client: Client, to: Piece, from: Piece): readonly [Part, Part] | undefined {
  const { random } = client
  if (to !== from) {
    const length = random.one([Math.min(to.length, from.length), random.below(Math.min(to.length, from.length) + 1)])
    const place = (piece: Piece): Part => ({ piece, from: random.below(piece.length - length + 1), length })
    return [place(to), place(from)]
  }
  const length = random.below((to.length >> 1) + 1)
  if (length === 0) return undefined
  const low = { piece: to, from: random.below(to.length - 2 * length + 1), length }
  const after = low.from + length
  const high = { piece: to, from: after + random.below(to.length - after - length + 1), length }
  return random.chance(0.5) ? [low, high] : [high, low]
}

function copyBetween(client: Client, to: Piece, from: Piece, track = client.track()): void {
  const parts = partsFor(client, to, from)
  if (parts === undefined) return
  const [target, source] = parts
  client.use(track, { reads: [from], writes: [to], empty: target.length === 0 }, (stream) => {
    const [into, out] = [client.slice(target), client.slice(source)]
    stream.copy(into, out)
    // A slice ends alone: the memory stays, and the copy goes on.
    if (client.random.chance(0.2) && into !== to.buffer) into.close()
  })
  modelOf(target).set(modelOf(source).slice())
}

const copy = (client: Client): void => copyBetween(client, client.piece(), client.piece())

/** Every direction that there is, one after the other on one stream. */
function copyEveryWay(client: Client): void {
  const track = client.track()
  for (const to of KINDS) {
    for (const from of KINDS) {
      const [target, source] = [to, from].map((wanted) => client.pieces.find(({ kind }) => kind === wanted))
      if (target !== undefined && source !== undefined) copyBetween(client, target, source, track)
    }
  }
}

const isPinned = ({ isPinned }: Piece): boolean => isPinned

/** Pinned to pinned, also while a host function stands before it: it is work of the stream as any other. */
function copyPinned(client: Client): void {
  while (client.pieces.filter(isPinned).length < 2) client.pieces.push(client.newPiece('pinned'))
  const track = client.track()
  client.machine.host(track, undefined)
  copyBetween(client, client.piece(isPinned), client.piece(isPinned), track)
}

/** Behind a host function that stands every call returns, and none of them runs it where its queue has room. */
function queueBehind(client: Client): void {
  const { random, machine, tracker } = client
  const track = client.newTrack('own')
  client.tracks.push(track)
  const { stream, device } = track
  const length = random.one([64, 24_576, 65_537])
  const [value, more] = [random.below(256), random.below(256)]
  // Streams share hardware queues: what others have queued is done first, so that there is room for all of this.
  const hasCapacity = machine.isAlone && machine.fixture.waitForDevice(() => device.synchronize())
  let ranIn: string | undefined
  machine.host(track, () => {
    ranIn = new Error('a host function ran inside of this call').stack
  })
  const memory = device.alloc(length, { stream })
  const interprocess = device.alloc(length, { interprocess: true })
  const [pinned, other] = [device.allocPinned(length), device.allocPinned(length)]
  stream.fill(pinned, value).copy(other, pinned).copy(memory, other)
  stream.launch(affine, { grid: Math.ceil(length / 256), block: 256 }, memory, length, more)
  stream.copy(interprocess, memory).copy(other, interprocess).copy(pinned, other)
  const wanted = new Uint8Array(length).fill(value)
  affineModel(wanted, more)
  client.follow('download() behind a host function', stream.download(pinned), (bytes) => {
    tracker.sameBytes('what was queued behind a host function', bytes, wanted)
  })
  client.follow('upload() behind a host function', stream.upload(memory, random.bytes(length)))
  using event = stream.record({ timing: true })
  stream.wait(event)
  track.worked()
  for (const each of [memory, interprocess, pinned, other]) each.close()
  if (hasCapacity) tracker.same('the call that does not wait, and ran a host function', ranIn, undefined)
}

/** A copy between places that overlap is refused, and nothing of it is queued. */
function copyOverlapping(client: Client): void {
  const { random } = client
  const piece = client.piece(
    ({ length }) => length > 15,
    () => client.newPiece('device', 64),
  )
  const length = random.between(1, piece.length - 1)
  const from = random.below(piece.length - length + 1)
  const there = random.between(Math.max(0, from - length + 1), Math.min(piece.length - length, from + length - 1))
  const [to, by] = [there, from].map((at) => client.slice({ piece, from: at, length }))
  if (to === undefined || by === undefined) return
  const { stream } = client.track()
  client.refused('copy() of memory that overlaps', 'ERR_INVALID_ARG_VALUE', () => stream.copy(to, by))
}

/** The same bytes as an array of some kind. */
function asArray(client: Client, bytes: Uint8Array<ArrayBuffer>): Bytes {
  const { random } = client
  const { length } = bytes
  const shared = (): Uint8Array<SharedArrayBuffer> => {
    const copied = new Uint8Array(new SharedArrayBuffer(length))
    copied.set(bytes)
    return copied
  }
  return random.one<() => Bytes>([
    () => bytes,
    () => bytes.buffer,
    () => new DataView(bytes.buffer),
    () => Buffer.from(bytes.buffer),
    () => (length % 4 === 0 ? new Float32Array(bytes.buffer) : bytes),
    () => (length % 8 === 0 ? new BigInt64Array(bytes.buffer) : bytes),
    () => shared(),
    () => shared().buffer,
  ])()
}

function upload(client: Client): void {
  const part = client.anyPart()
  const bytes = client.random.bytes(part.length)
  modelOf(part).set(bytes)
  client.use(client.track(), { writes: [part.piece], empty: part.length === 0 }, (stream) => {
    const array = asArray(client, bytes)
    client.follow('upload()', stream.upload(client.slice(part), array))
    // It may be used again at once.
    const { buffer } = ArrayBuffer.isView(array) ? array : { buffer: array }
    new Uint8Array(buffer).fill(0xaa)
  })
}

function download(client: Client, part = client.anyPart(), track = client.track()): void {
  const wanted = modelOf(part).slice()
  client.use(track, { reads: [part.piece], empty: part.length === 0 }, (stream) => {
    client.follow('download()', stream.download(client.slice(part)), (bytes) => {
      client.tracker.sameBytes(`a download of ${part.piece}`, bytes, wanted)
    })
  })
}

/** More than the staging memory of a stream holds; it is closed while the bytes are under way. */
function moveMuch(client: Client): void {
  const { random } = client
  const track = client.track()
  const { device, stream } = track
  track.beforeWork()
  const length = random.between(3, 22) * MIB + random.below(5000)
  const bytes = random.bytes(length)
  const wanted = bytes.slice()
  const buffer = device.alloc(length, { stream })
  client.follow('upload() of much', stream.upload(buffer, bytes))
  track.worked()
  bytes.fill(0)
  client.machine.host(track, client.aux.body(track))
  client.follow('download() of much', stream.download(buffer), (seen) => {
    client.tracker.sameBytes('a download of much', seen, wanted)
  })
  track.worked()
  buffer.close()
}

/** Web streams: nobody else uses the piece meanwhile, and the stream stays open. */
async function moveByWebStreams(client: Client): Promise<void> {
  const { random } = client
  const piece = client.piece(
    (each) => isFree(each) && each.length >= 2,
    () => client.newPiece('device', 5000),
  )
  const track = client.track()
  piece.held += 1
  track.held += 1
  client.pieces = client.pieces.filter((other) => other !== piece)
  try {
    const { stream } = track
    track.beforeWork()
    for (const use of piece.uses) client.order(track, use)
    const bytes = random.bytes(piece.length)
    const writer = stream.uploader(piece.buffer).getWriter()
    for (let from = 0; from < bytes.length; ) {
      const to = Math.min(bytes.length, from + random.between(1, 1 + (bytes.length >> 1)))
      await writer.write(bytes.slice(from, to))
      from = to
    }
    if (random.chance(0.3)) {
      const refused = writer.write(new Uint8Array(1))
      writer.closed.catch(() => {})
      client.rejected('more than a buffer holds, written to an uploader', 'ERR_OUT_OF_RANGE', refused)
      await refused.catch(() => {})
    } else await writer.close()
    piece.model.set(bytes)
    piece.writtenBy(track.worked())
    const chunkBytes = random.between(1 + (bytes.length >> 3), bytes.length)
    const chunks: Uint8Array[] = []
    for await (const chunk of stream.downloader(piece.buffer, { chunkBytes })) {
      if (chunk.length > chunkBytes) client.fail(`a chunk of ${chunk.length} bytes where ${chunkBytes} are asked for`)
      chunks.push(chunk)
    }
    client.tracker.sameBytes('a downloader', Buffer.concat(chunks), piece.model)
    piece.readBy(track.worked())
  } finally {
    piece.held -= 1
    track.held -= 1
    client.pieces.push(piece)
  }
}

/** JavaScript reads pinned memory where all is done that writes it, and writes it where all is done that uses it. */
async function look(client: Client): Promise<void> {
  const { random } = client
  const piece = client.piece(
    (each) => isPinned(each) && isFree(each),
    () => client.newPiece('pinned'),
  )
  piece.held += 1
  client.pieces = client.pieces.filter((other) => other !== piece)
  try {
    for (const use of piece.uses) await client.known(use)
    const { pinned, model } = piece
    const isWhole = random.chance(0.5)
    const part = isWhole ? { piece, from: 0, length: piece.length } : client.anyPart(piece)
    const bytes = isWhole ? pinned.view(Uint8Array) : pinned.subarray(part.from, part.from + part.length).bytes
    client.tracker.sameBytes('pinned bytes', bytes, modelOf(part))
    if (model.length % 8 === 0) client.tracker.same('elements', pinned.view(Float64Array).length, model.length / 8)
    if (random.chance(0.6)) {
      const value = random.below(256)
      bytes.fill(value)
      modelOf(part).fill(value)
    }
  } finally {
    piece.held -= 1
    client.pieces.push(piece)
  }
}

async function renew(client: Client): Promise<void> {
  const { random } = client
  client.pieces.push(client.newPiece(random.one(KINDS)))
  const old = client.piece(isFree)
  // What the library does not know all uses of is given back with care.
  const way = random.below(5)
  if (old.untracked || way > 1) await client.giveBack(old)
  else if (way === 0) client.dropPiece(old)
  else {
    client.pieces = client.pieces.filter((other) => other !== old)
    client.aux.condemn(() => old.buffer.close())
  }
}

/** Memory is allocated, used on a stream that has nothing to do with the allocation, and closed, all at once. */
function passThrough(client: Client): void {
  const { random } = client
  const allocationStream = client.track()
  const other = client.track(allocationStream.device)
  const length = random.between(1, 40_000)
  const value = random.below(256)
  using scratch = allocationStream.device.alloc(length, { stream: allocationStream.stream })
  other.beforeWork()
  other.stream.fill(scratch, value)
  const wanted = new Uint8Array(length).fill(value)
  client.follow('download() of scratch memory', other.stream.download(scratch), (bytes) => {
    client.tracker.sameBytes('scratch memory', bytes, wanted)
  })
  other.worked()
}

function noBytes(client: Client): void {
  const [to, from] = [client.piece(), client.piece()]
  client.use(client.track(), { empty: true }, (stream) => {
    stream
      .fill(to.buffer.subarray(to.length, to.length), 1)
      .copy(to.buffer.subarray(0, 0), from.buffer.subarray(from.length, from.length))
  })
}

export const memoryActions: readonly Action[] = [
  { name: 'fill', weight: 8, play: fill },
  { name: 'copy', weight: 10, play: copy },
  { name: 'copy every way', weight: 1, play: copyEveryWay },
  { name: 'copy pinned to pinned', weight: 3, play: copyPinned },
  { name: 'queue behind', weight: 0.4, play: queueBehind },
  { name: 'copy overlapping', weight: 0.5, play: copyOverlapping },
  { name: 'upload', weight: 6, play: upload },
  { name: 'download', weight: 8, play: (client) => download(client) },
  { name: 'move much', weight: 0.15, play: moveMuch },
  { name: 'web streams', weight: 0.6, play: moveByWebStreams },
  { name: 'look', weight: 2.5, play: look },
  { name: 'renew memory', weight: 2, play: renew },
  { name: 'scratch memory', weight: 1, play: passThrough },
  { name: 'no bytes', weight: 0.5, play: noBytes },
]

/** Checks all that an client has. */
export function checkAll(client: Client): void {
  for (const piece of client.pieces) download(client, { piece, from: 0, length: piece.length })
}
