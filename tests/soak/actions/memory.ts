/** Memory is made, filled, copied in every direction, moved from and to ordinary arrays, looked at, and given back. */
import type { Bytes } from 'cuda-streams'
import type { Action, Actor } from '../actor.js'
import { affine, affineModel } from '../kernels.js'
import { modelOf, type Part, type Piece, type PieceKind } from '../pieces.js'

const WIDTHS = [1, 2, 4] as const
const MIB = 2 ** 20
const KINDS: readonly PieceKind[] = ['device', 'pinned', 'foreign', 'interprocess']

const isFree = ({ held }: Piece): boolean => held === 0

function fill(actor: Actor): void {
  const { random } = actor
  const width = random.one(WIDTHS)
  const part = aligned(actor.anyPart(), width)
  const value = random.bits() % 2 ** (8 * width)
  const given = random.chance(0.3) ? value - 2 ** (8 * width - 1) : value
  const stored = given < 0 ? given + 2 ** (8 * width) : given
  actor.use(actor.lane(), { writes: [part.piece], empty: part.length === 0 }, (stream) => {
    if (width === 1 && random.chance(0.7)) stream.fill(actor.slice(part), given)
    else stream.fill(actor.slice(part), given, { width })
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
function partsFor(actor: Actor, to: Piece, from: Piece): readonly [Part, Part] | undefined {
  const { random } = actor
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

function copyBetween(actor: Actor, to: Piece, from: Piece, lane = actor.lane()): void {
  const parts = partsFor(actor, to, from)
  if (parts === undefined) return
  const [target, source] = parts
  actor.use(lane, { reads: [from], writes: [to], empty: target.length === 0 }, (stream) => {
    const [into, out] = [actor.slice(target), actor.slice(source)]
    stream.copy(into, out)
    // A slice ends alone: the memory stays, and the copy goes on.
    if (actor.random.chance(0.2) && into !== to.buffer) into.close()
  })
  modelOf(target).set(modelOf(source).slice())
}

const copy = (actor: Actor): void => copyBetween(actor, actor.piece(), actor.piece())

/** Every direction that there is, one after the other on one stream. */
function copyEveryWay(actor: Actor): void {
  const lane = actor.lane()
  for (const to of KINDS) {
    for (const from of KINDS) {
      const [target, source] = [to, from].map((wanted) => actor.pieces.find(({ kind }) => kind === wanted))
      if (target !== undefined && source !== undefined) copyBetween(actor, target, source, lane)
    }
  }
}

const isPinned = ({ isPinned }: Piece): boolean => isPinned

/** Pinned to pinned, also while a host function stands before it: it is work of the stream as any other. */
function copyPinned(actor: Actor): void {
  while (actor.pieces.filter(isPinned).length < 2) actor.pieces.push(actor.newPiece('pinned'))
  const lane = actor.lane()
  actor.machine.host(lane, undefined)
  copyBetween(actor, actor.piece(isPinned), actor.piece(isPinned), lane)
}

/** Behind a host function that stands every call returns, and none of them runs it where its queue has room. */
function queueBehind(actor: Actor): void {
  const { random, machine, books } = actor
  const lane = actor.newLane('own')
  actor.lanes.push(lane)
  const { stream, device } = lane
  const length = random.one([64, 24_576, 65_537])
  const [value, more] = [random.below(256), random.below(256)]
  // Streams share hardware queues: what others have queued is done first, so that there is room for all of this.
  const hasCapacity = machine.isAlone && machine.ground.waitForDevice(() => device.synchronize())
  let ranIn: string | undefined
  machine.host(lane, () => {
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
  actor.follow('download() behind a host function', stream.download(pinned), (bytes) => {
    books.sameBytes('what was queued behind a host function', bytes, wanted)
  })
  actor.follow('upload() behind a host function', stream.upload(memory, random.bytes(length)))
  using event = stream.record({ timing: true })
  stream.wait(event)
  lane.worked()
  for (const each of [memory, interprocess, pinned, other]) each.close()
  if (hasCapacity) books.same('the call that does not wait, and ran a host function', ranIn, undefined)
}

/** What a copy between places that overlap leaves is promised by nobody: what comes behind it writes all of it again. */
function copyOverlapping(actor: Actor): void {
  const { random } = actor
  const piece = actor.piece(
    ({ length }) => length > 15,
    () => actor.newPiece('device', 64),
  )
  const length = random.between(1, piece.length - 1)
  const [to, from] = [0, 1].map(() => ({ piece, from: random.below(piece.length - length + 1), length })) as [
    Part,
    Part,
  ]
  const value = random.below(256)
  actor.use(actor.lane(), { writes: [piece] }, (stream) => {
    stream.copy(actor.slice(to), actor.slice(from)).fill(actor.slice(to), value)
  })
  modelOf(to).fill(value)
}

/** The same bytes as an array of some kind. */
function asArray(actor: Actor, bytes: Uint8Array<ArrayBuffer>): Bytes {
  const { random } = actor
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

function upload(actor: Actor): void {
  const part = actor.anyPart()
  const bytes = actor.random.bytes(part.length)
  modelOf(part).set(bytes)
  actor.use(actor.lane(), { writes: [part.piece], empty: part.length === 0 }, (stream) => {
    const array = asArray(actor, bytes)
    actor.follow('upload()', stream.upload(actor.slice(part), array))
    // It may be used again at once.
    const { buffer } = ArrayBuffer.isView(array) ? array : { buffer: array }
    new Uint8Array(buffer).fill(0xaa)
  })
}

function download(actor: Actor, part = actor.anyPart(), lane = actor.lane()): void {
  const wanted = modelOf(part).slice()
  actor.use(lane, { reads: [part.piece], empty: part.length === 0 }, (stream) => {
    actor.follow('download()', stream.download(actor.slice(part)), (bytes) => {
      actor.books.sameBytes(`a download of ${part.piece}`, bytes, wanted)
    })
  })
}

/** More than the staging memory of a stream holds; it is closed while the bytes are under way. */
function moveMuch(actor: Actor): void {
  const { random } = actor
  const lane = actor.lane()
  const { device, stream } = lane
  lane.beforeWork()
  const length = random.between(3, 22) * MIB + random.below(5000)
  const bytes = random.bytes(length)
  const wanted = bytes.slice()
  const buffer = device.alloc(length, { stream })
  actor.follow('upload() of much', stream.upload(buffer, bytes))
  lane.worked()
  bytes.fill(0)
  actor.machine.host(lane, actor.aux.body(lane))
  actor.follow('download() of much', stream.download(buffer), (seen) => {
    actor.books.sameBytes('a download of much', seen, wanted)
  })
  lane.worked()
  buffer.close()
}

/** Web streams: nobody else uses the piece meanwhile, and the stream stays open. */
async function moveByWebStreams(actor: Actor): Promise<void> {
  const { random } = actor
  const piece = actor.piece(
    (each) => isFree(each) && each.length >= 2,
    () => actor.newPiece('device', 5000),
  )
  const lane = actor.lane()
  piece.held += 1
  lane.held += 1
  actor.pieces = actor.pieces.filter((other) => other !== piece)
  try {
    const { stream } = lane
    lane.beforeWork()
    for (const use of piece.uses) actor.order(lane, use)
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
      actor.rejected('more than a buffer holds, written to an uploader', 'ERR_OUT_OF_RANGE', refused)
      await refused.catch(() => {})
    } else await writer.close()
    piece.model.set(bytes)
    piece.writtenBy(lane.worked())
    const chunkBytes = random.between(1 + (bytes.length >> 3), bytes.length)
    const chunks: Uint8Array[] = []
    for await (const chunk of stream.downloader(piece.buffer, { chunkBytes })) {
      if (chunk.length > chunkBytes) actor.fail(`a chunk of ${chunk.length} bytes where ${chunkBytes} are asked for`)
      chunks.push(chunk)
    }
    actor.books.sameBytes('a downloader', Buffer.concat(chunks), piece.model)
    piece.readBy(lane.worked())
  } finally {
    piece.held -= 1
    lane.held -= 1
    actor.pieces.push(piece)
  }
}

/** JavaScript reads pinned memory where all is done that writes it, and writes it where all is done that uses it. */
async function look(actor: Actor): Promise<void> {
  const { random } = actor
  const piece = actor.piece(
    (each) => isPinned(each) && isFree(each),
    () => actor.newPiece('pinned'),
  )
  piece.held += 1
  actor.pieces = actor.pieces.filter((other) => other !== piece)
  try {
    for (const use of piece.uses) await actor.known(use)
    const { pinned, model } = piece
    const isWhole = random.chance(0.5)
    const part = isWhole ? { piece, from: 0, length: piece.length } : actor.anyPart(piece)
    const bytes = isWhole ? pinned.view(Uint8Array) : pinned.slice(part.from, part.length).bytes
    actor.books.sameBytes('pinned bytes', bytes, modelOf(part))
    if (model.length % 8 === 0) actor.books.same('elements', pinned.view(Float64Array).length, model.length / 8)
    if (random.chance(0.6)) {
      const value = random.below(256)
      bytes.fill(value)
      modelOf(part).fill(value)
    }
  } finally {
    piece.held -= 1
    actor.pieces.push(piece)
  }
}

async function renew(actor: Actor): Promise<void> {
  const { random } = actor
  actor.pieces.push(actor.newPiece(random.one(KINDS)))
  const old = actor.piece(isFree)
  // What the library does not know all uses of is given back with care.
  const way = random.below(5)
  if (old.untracked || way > 1) await actor.giveBack(old)
  else if (way === 0) actor.dropPiece(old)
  else {
    actor.pieces = actor.pieces.filter((other) => other !== old)
    actor.aux.condemn(() => old.buffer.close())
  }
}

/** Memory is allocated, used on a stream that has nothing to do with the allocation, and closed, all at once. */
function passThrough(actor: Actor): void {
  const { random } = actor
  const home = actor.lane()
  const other = actor.lane(home.device)
  const length = random.between(1, 40_000)
  const value = random.below(256)
  using scratch = home.device.alloc(length, { stream: home.stream })
  other.beforeWork()
  other.stream.fill(scratch, value)
  const wanted = new Uint8Array(length).fill(value)
  actor.follow('download() of scratch memory', other.stream.download(scratch), (bytes) => {
    actor.books.sameBytes('scratch memory', bytes, wanted)
  })
  other.worked()
}

function noBytes(actor: Actor): void {
  const [to, from] = [actor.piece(), actor.piece()]
  actor.use(actor.lane(), { empty: true }, (stream) => {
    stream.fill(to.buffer.slice(to.length, 0), 1).copy(to.buffer.slice(0, 0), from.buffer.slice(from.length, 0))
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
  { name: 'download', weight: 8, play: (actor) => download(actor) },
  { name: 'move much', weight: 0.15, play: moveMuch },
  { name: 'web streams', weight: 0.6, play: moveByWebStreams },
  { name: 'look', weight: 2.5, play: look },
  { name: 'renew memory', weight: 2, play: renew },
  { name: 'scratch memory', weight: 1, play: passThrough },
  { name: 'no bytes', weight: 0.5, play: noBytes },
]

/** Checks all that an actor has. */
export function checkAll(actor: Actor): void {
  for (const piece of actor.pieces) download(actor, { piece, from: 0, length: piece.length })
}
