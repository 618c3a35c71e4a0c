/** Copies and fills of rows, and many copies in one call: the bytes of the definition, in the order of the stream, and nothing beside them. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import type { CopyOptions, DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import { PinnedBuffer as Pinned } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'
import { refused } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'

type Buffer = DeviceBuffer | PinnedBuffer

/** The next of numbers that look random. */
function random(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
}

/** What a copy of rows is, by its definition. */
function copyRows(to: Uint8Array, from: Uint8Array, { shape, destinationStrides, sourceStrides }: CopyOptions): void {
  const [planes, rows, length] = shape.length === 3 ? shape : [1, ...shape]
  const at = (strides: readonly number[] | undefined, plane: number, row: number): number => {
    const [planeStride = 0, rowStride = 0] = strides === undefined ? [rows * length, length] : [0, ...strides].slice(-2)
    return plane * planeStride + row * rowStride
  }
  for (let plane = 0; plane < planes; plane += 1) {
    for (let row = 0; row < rows; row += 1) {
      const begin = at(sourceStrides, plane, row)
      to.set(from.subarray(begin, begin + length), at(destinationStrides, plane, row))
    }
  }
}

onEveryBackend('copies', (bench) => {
  const { device } = bench
  const stream = bench.stream()
  const other = bench.stream()
  after(() => {
    stream.close()
    other.close()
  })
  const LENGTH = 20_000
  const make: Readonly<Record<string, () => Buffer>> = {
    device: () => device.alloc(LENGTH, { stream }),
    pinned: () => device.allocPinned(LENGTH),
    registered: () => Pinned.from(new Uint8Array(LENGTH + 7).subarray(7), { device }),
  }

  for (const [there, makeTo] of Object.entries(make)) {
    for (const [here, makeFrom] of Object.entries(make)) {
      it(`rows of ${here} memory to ${there} memory are those of the definition`, async () => {
        const next = random(there.length * 31 + here.length)
        using to = makeTo()
        using from = makeFrom()
        const expected = new Uint8Array(LENGTH)
        const source = Uint8Array.from({ length: LENGTH }, (_, index) => (index * 7) % 253)
        await Promise.all([stream.upload(to, expected), stream.upload(from, source)])
        for (let round = 0; round < 25; round += 1) {
          const [planes, rows, length] = [1 + next(4), 1 + next(12), 1 + next(100)]
          const ends = [0, 1].map(() => {
            const row = length + (next(2) === 0 ? 0 : next(40))
            return { row, plane: row * (rows + next(3)) }
          })
          const [a, b] = ends
          assert.ok(a && b)
          const options: CopyOptions =
            next(2) === 0
              ? { shape: [rows, length], destinationStrides: [a.row], sourceStrides: [b.row] }
              : {
                  shape: [planes, rows, length],
                  destinationStrides: [a.plane, a.row],
                  ...(next(3) === 0 ? {} : { sourceStrides: [b.plane, b.row] }),
                }
          const [begin, origin] = [next(5000), next(5000)]
          stream.copy(to.subarray(begin, LENGTH), from.subarray(origin, LENGTH), options)
          copyRows(expected.subarray(begin), source.subarray(origin), options)
        }
        const got = await stream.download(to)
        assert.equal(
          got.findIndex((byte, index) => byte !== expected[index]),
          -1,
        )
      })
    }
  }

  it('rows come in the order of the stream, and do not block', async () => {
    using image = device.alloc(64 * 64, { stream })
    using pinned = device.allocPinned(16 * 16)
    stream.fill(image, 1)
    using latch = bench.latch(stream)
    stream.fill(image, 2)
    const part = { shape: [16, 16], sourceStrides: [64] } as const
    stream.copy(pinned, image.subarray(64, 64 + 16 * 64), part)
    stream.fill(image, 3)
    latch.open()
    await stream.finished()
    assert.deepEqual([...new Set(pinned.bytes)], [2])
  })

  it('rows are captured as one node, of each kind of memory', async () => {
    for (const [to, from] of [
      ['device', 'pinned'],
      ['pinned', 'device'],
      ['pinned', 'pinned'],
      ['device', 'device'],
    ] as const) {
      using a = (make[to] as () => Buffer)()
      using b = (make[from] as () => Buffer)()
      stream.fill(b, 9)
      stream.fill(a, 0)
      await stream.finished()
      using graph = stream.capture(() => stream.copy(a, b, { shape: [4, 8], destinationStrides: [16] }))
      assert.equal(graph.nodeCount, 1, `${to} from ${from}`)
      using exec = graph.instantiate()
      exec.launch(stream)
      const bytes = await stream.download(a.subarray(0, 64))
      const row = [...Array(8).fill(9), ...Array(8).fill(0)]
      assert.deepEqual([...bytes], [...row, ...row, ...row, ...row])
    }
  })

  it('rows on the null stream and the per-thread stream', async () => {
    using a = device.alloc(256)
    using pinned = device.allocPinned(256)
    pinned.bytes.fill(5)
    await device.finished()
    for (const each of [device.defaultStream]) {
      each.fill(a, 0).copy(a, pinned, { shape: [2, 8], destinationStrides: [32] })
      const bytes = await each.download(a.subarray(0, 48))
      assert.deepEqual([bytes[0], bytes[8], bytes[32], bytes[40]], [5, 0, 5, 0])
    }
  })

  it('refuses rows that do not fit, with numbers', () => {
    using buffer = device.alloc(100, { stream })
    using pinned = device.allocPinned(50)
    const copy = (options: object) => () => stream.copy(buffer, pinned, options as CopyOptions)
    refused(copy({ shape: [6, 10] }), 'ERR_OUT_OF_RANGE', /rows of the source must be at most 50.*not 60/)
    refused(copy({ shape: [5, 10], destinationStrides: [23] }), 'ERR_OUT_OF_RANGE', /destination.*at most 100.*not 102/)
    refused(copy({ shape: [2, 10], sourceStrides: [9] }), 'ERR_OUT_OF_RANGE', /sourceStrides\[0\] must be at least 10/)
    refused(copy({ shape: [2, 2, 10], sourceStrides: [19, 10] }), 'ERR_OUT_OF_RANGE', /at least 20/)
    refused(copy({ shape: [2, 2, 10], sourceStrides: [25, 10] }), 'ERR_INVALID_ARG_VALUE', /whole number/)
    refused(copy({ shape: [2, 10], sourceStrides: [1, 1] }), 'ERR_INVALID_ARG_VALUE', /1 number/)
    refused(copy({ shape: [2] }), 'ERR_INVALID_ARG_VALUE', /\[rows, rowLength\]/)
    refused(copy({ shape: [1, 2, 3, 4] }), 'ERR_INVALID_ARG_VALUE')
    refused(copy({ shape: [2, -1] }), 'ERR_OUT_OF_RANGE')
    refused(copy({ shape: [2, 1.5] }), 'ERR_INVALID_ARG_TYPE')
    refused(copy({}), 'ERR_INVALID_ARG_TYPE', /options\.shape/)
    stream.copy(buffer, pinned, { shape: [0, 10] })
    const closed = device.allocPinned(64)
    closed.close()
    refused(() => stream.copy(buffer, closed, { shape: [1, 1] }), 'ERR_CLOSED')
  })

  for (const [kind, makeTo] of Object.entries(make)) {
    it(`T2 a fill writes rows of ${kind} memory, and nothing between them`, async () => {
      const next = random(kind.length)
      // The registered memory begins behind seven bytes.
      const aligned = kind === 'registered' ? 1 : 0
      using to = makeTo()
      const expected = new Uint8Array(LENGTH)
      await stream.upload(to, expected)
      for (let round = 0; round < 40; round += 1) {
        const width = [1, 2, 4][next(3)] as 1 | 2 | 4
        const [rows, length, begin] = [1 + next(12), width * (1 + next(60)), aligned + 8 * next(800)]
        const gap = width * next(8)
        const value = next(2 ** (8 * width))
        const strides = next(3) === 0 ? {} : { strides: [length + gap] as const }
        stream.fill(to.subarray(begin, LENGTH), value, { width, shape: [rows, length], ...strides })
        for (let row = 0; row < rows; row += 1) {
          const from = begin + row * (strides.strides?.[0] ?? length)
          for (let at = 0; at < length; at += 1) expected[from + at] = (value >>> (8 * (at % width))) & 255
        }
      }
      const got = await stream.download(to)
      assert.equal(
        got.findIndex((byte, index) => byte !== expected[index]),
        -1,
      )
    })
  }

  it('T2 a fill of rows is one node of a graph, which can be neither changed nor switched off', async () => {
    using a = device.alloc(64, { stream })
    using graph = stream.capture(() =>
      stream.fill(a, 9, { shape: [4, 8], strides: [16] }).fill(a.subarray(8, 16), 3, { shape: [2, 4] }),
    )
    const [rows, dense] = graph.nodes
    assert.ok(rows?.kind === 'fill' && dense?.kind === 'fill' && graph.nodeCount === 2)
    assert.deepEqual([rows.byteLength, dense.byteLength], [32, 8])
    using exec = graph.instantiate()
    refused(() => exec.update(rows, a, 1), 'ERR_INVALID_ARG_VALUE', /several rows/)
    const ofRows: object = { shape: [2, 4] }
    refused(() => exec.update(dense, a, 1, ofRows), 'ERR_INVALID_ARG_VALUE', /shape/)
    refused(() => exec.setEnabled(rows, false), 'ERR_UNSUPPORTED', /several rows cannot be switched off/)
    exec.update(dense, a.subarray(24, 32), 5)
    stream.fill(a, 0).launch(exec)
    const row = (left: number, right: number): number[] => [...Array(8).fill(left), ...Array(8).fill(right)]
    assert.deepEqual([...(await stream.download(a))], [...row(9, 0), ...row(9, 5), ...row(9, 0), ...row(9, 0)])
  })

  it('T2 an instance is updated by a graph that fills rows of the same shape, and by none of another', async () => {
    using a = device.alloc(64, { stream })
    using b = device.alloc(64, { stream })
    const capture = (buffer: DeviceBuffer, value: number, rows: number, distance: number, width: 1 | 2 = 1) =>
      stream.capture(() => stream.fill(buffer, value, { shape: [rows, 8 / width], strides: [distance], width }))
    using graph = capture(a, 1, 4, 16)
    using exec = graph.instantiate()
    using same = capture(b, 2, 4, 16)
    exec.update(same)
    stream.fill(b, 0).launch(exec)
    assert.deepEqual([...(await stream.download(b.subarray(0, 17)))], [...Array(8).fill(2), ...Array(8).fill(0), 2])
    for (const [rows, distance, width] of [
      [3, 16, 1],
      [4, 12, 1],
      [4, 16, 2],
    ] as const) {
      using other = capture(a, 1, rows, distance, width)
      assert.throws(() => exec.update(other), { name: 'CudaError', number: 910 })
    }
  })

  it('refuses a fill of rows that do not fit, with numbers', () => {
    using buffer = device.alloc(100, { stream })
    const fill = (options: object) => () => stream.fill(buffer, 1, options)
    refused(fill({ shape: [5, 10], strides: [23] }), 'ERR_OUT_OF_RANGE', /rows of the buffer.*at most 100.*not 102/)
    refused(fill({ shape: [2, 10], strides: [9] }), 'ERR_OUT_OF_RANGE', /strides\[0\] must be at least 10/)
    refused(fill({ shape: [2, 2, 10] }), 'ERR_INVALID_ARG_VALUE', /\[rows, rowLength\], not \(2, 2, 10\)/)
    refused(fill({ shape: [2, 10], strides: [10, 1] }), 'ERR_INVALID_ARG_VALUE', /1 number/)
    refused(fill({ strides: [10] }), 'ERR_INVALID_ARG_VALUE', /needs options\.shape/)
    refused(fill({ shape: [2, 10], width: 4 }), 'ERR_INVALID_ARG_VALUE', /shape\[1\].*whole number.*4 bytes, not 10/)
    refused(fill({ shape: [2, 8], strides: [10], width: 4 }), 'ERR_INVALID_ARG_VALUE', /strides\[0\].*4 bytes, not 10/)
    refused(
      () => stream.fill(buffer.subarray(1, 100), 1, { shape: [2, 8], width: 4 }),
      'ERR_INVALID_ARG_VALUE',
      /begins in/,
    )
    refused(fill({ shape: [2, -1] }), 'ERR_OUT_OF_RANGE')
    stream.fill(buffer, 1, { shape: [0, 10], strides: [1000] })
  })

  it('the sanitizer sees the rows of a fill, and not the gaps between them', async () => {
    for (const [offset, races] of [
      [0, 1],
      [8, 0],
    ] as const) {
      using sanitizer = Sanitizer.start({ device })
      using image = device.alloc(1024, { stream })
      other.wait(stream)
      await device.finished()
      stream.fill(image, 1, { shape: [8, 8], strides: [16] })
      other.fill(image.subarray(offset, offset + 512), 2, { shape: [8, 8], strides: [16] })
      await device.finished()
      assert.equal(sanitizer.reports.length, races, `offset ${offset}`)
    }
  })

  it('the sanitizer sees rows, and not the gaps between them', async () => {
    for (const [offset, races] of [
      [0, 1],
      [8, 0],
    ] as const) {
      using sanitizer = Sanitizer.start({ device })
      using image = device.alloc(1024, { stream })
      using left = device.alloc(64, { stream })
      using right = device.alloc(64, { stream: other })
      other.wait(stream)
      await device.finished()
      stream.copy(image, left, { shape: [8, 8], destinationStrides: [16] })
      other.copy(image.subarray(offset, offset + 512), right, { shape: [8, 8], destinationStrides: [16] })
      await device.finished()
      assert.equal(sanitizer.reports.length, races, `offset ${offset}`)
    }
  })

  it('makes many copies in one call, in all directions', async () => {
    for (const on of [stream, device.defaultStream]) {
      using from = device.alloc(LENGTH, { stream })
      using pinned = device.allocPinned(LENGTH)
      using to = device.alloc(LENGTH, { stream })
      pinned.bytes.set(Uint8Array.from({ length: LENGTH }, (_, index) => index % 255))
      await stream.fill(to, 0).copy(from, pinned).finished()
      const pairs: [Buffer, Buffer][] = []
      for (let index = 0; index < 600; index += 1) {
        const source = index % 2 === 0 ? from : pinned
        pairs.push([
          to.subarray(index * 20, index * 20 + 10 + (index % 7)),
          source.subarray((599 - index) * 30, (599 - index) * 30 + 10 + (index % 7)),
        ])
      }
      pairs.push(
        [to.subarray(0, 0), from.subarray(0, 0)],
        [pinned.subarray(19_000, 19010), pinned.subarray(19_500, 19510)],
      )
      await on.copy(pairs).finished()
      const got = await stream.download(to)
      for (let index = 0; index < 600; index += 1) {
        const length = 10 + (index % 7)
        for (let at = 0; at < 20; at += 1) {
          const expected = at < length ? ((599 - index) * 30 + at) % 255 : 0
          assert.equal(got[index * 20 + at], expected, `copy ${index}, byte ${at}`)
        }
      }
      assert.equal(pinned.bytes[19_000], 19_500 % 255)
    }
  })

  it('makes them in a capture, too, and none where one is refused', async () => {
    using from = device.alloc(64, { stream })
    using to = device.alloc(64, { stream })
    await stream.fill(from, 4).fill(to, 0).finished()
    const halves = [0, 32].map((at) => [to.subarray(at, at + 32), from.subarray(at, at + 32)] as const)
    using graph = stream.capture(() => stream.copy(halves))
    assert.equal(graph.nodeCount, 2)
    using exec = graph.instantiate()
    exec.launch(stream)
    assert.deepEqual([...new Set(await stream.download(to))], [4])
    stream.copy([])
    stream.fill(to, 0)
    const first = [to.subarray(0, 8), from.subarray(0, 8)] as const
    for (const [pairs, code, says] of [
      [
        [first, [to.subarray(4, 12), from.subarray(8, 16)]],
        'ERR_INVALID_ARG_VALUE',
        /copies\[0\] \(0x\w+ to 0x\w+\) and copies\[1\] \(0x/,
      ],
      [[first, [from.subarray(4, 12), to.subarray(32, 40)]], 'ERR_INVALID_ARG_VALUE', /same memory/],
      [[first, [to.subarray(16, 24), from.subarray(0, 4)]], 'ERR_OUT_OF_RANGE', /copies\[1\]\[1\].*8 bytes/],
      [[first, [to.subarray(16, 24)]], 'ERR_INVALID_ARG_TYPE', /copies\[1\]\[1\]/],
      [[first, 7], 'ERR_INVALID_ARG_TYPE', /copies\[1\]/],
      [[first, [to.subarray(16, 24), from.subarray(8, 16), 1]], 'ERR_INVALID_ARG_TYPE', /copies\[1\]/],
    ] as const)
      refused(() => stream.copy(pairs as never), code, says)
    assert.deepEqual([...new Set(await stream.download(to))], [0], 'nothing of them was queued')
  })

  for (const [kind, makeBuffer] of Object.entries(make)) {
    it(`of ${kind} memory that overlaps are refused in every form, with both ranges, and queue nothing`, async () => {
      using all = makeBuffer()
      using elsewhere = makeBuffer()
      const part = (from: number, to: number): Buffer => all.subarray(from, to)
      await stream.fill(all, 5).fill(elsewhere, 6).finished()
      using graph = stream.capture(() => stream.copy(part(0, 32), elsewhere.subarray(0, 32)))
      using exec = graph.instantiate()
      const [node] = graph.nodes
      type Copies = (to: Buffer, from: Buffer) => unknown
      const forms: Readonly<Record<string, Copies>> = {
        'a copy': (to, from) => stream.copy(to, from),
        rows: (to, from) => stream.copy(to, from, { shape: [2, to.byteLength / 2] }),
        'one of many': (to, from) =>
          stream.copy([
            [elsewhere.subarray(0, 8), part(900, 908)],
            [to, from],
          ]),
        // A copy within the host is captured as a host function, which cannot be updated.
        ...(node?.kind === 'copy' ? { 'an update': (to, from) => exec.update(node, to, from) } : {}),
      }
      assert.equal('an update' in forms, kind === 'device')
      const ranges = (a: string, b: string): RegExp =>
        new RegExp(`overlap.*\\(bytes ${a} and bytes ${b} of .*other memory`)
      for (const [form, copies] of Object.entries(forms)) {
        const isRefused = (to: Buffer, from: Buffer, says: RegExp) =>
          refused(() => copies(to, from), 'ERR_INVALID_ARG_VALUE', says)
        isRefused(part(4, 36), part(0, 32), ranges('4 to 36', '0 to 32'))
        isRefused(part(0, 32), part(31, 63), ranges('0 to 32', '31 to 63'))
        isRefused(part(8, 40), part(8, 40), ranges('8 to 40', '8 to 40'))
        isRefused(part(100, 200).subarray(4, 20), part(96, 112), ranges('104 to 120', '96 to 112'))
        // Side by side is no overlap, and neither are no bytes at all.
        assert.doesNotThrow(() => copies(part(0, 32), part(32, 64)), form)
        if (form !== 'an update') assert.doesNotThrow(() => copies(part(8, 8), part(8, 8)), form)
      }
      // A capture goes on behind a refusal.
      using captured = stream.capture(() => {
        refused(() => stream.copy(part(0, 8), part(4, 12)), 'ERR_INVALID_ARG_VALUE', /overlap/)
      })
      assert.equal(captured.nodeCount, 0)
      assert.deepEqual([...new Set(await stream.download(all))], [5])
    })
  }

  it('of rows are refused exactly if one of the rows overlaps one of the others', () => {
    using image = device.alloc(400, { stream })
    const next = random(11)
    const verdicts = { refused: 0, made: 0 }
    for (let round = 0; round < 600; round += 1) {
      const [planes, rows, length] = [1 + next(3), 1 + next(4), 1 + next(6)]
      const sameStride = length + next(12)
      const strides = [0, 1].map(() => {
        const row = next(2) === 0 ? sameStride : length + next(12)
        return [row * (rows + next(2)), row] as const
      })
      const [destinationStrides, sourceStrides] = strides
      assert.ok(destinationStrides && sourceStrides)
      const [at, from] = [next(90), next(90)]
      const options: CopyOptions = { shape: [planes, rows, length], destinationStrides, sourceStrides }
      const touched = ([plane, row]: readonly [number, number], begin: number): number[] =>
        Array.from({ length: planes * rows * length }, (_, index) => {
          const [inRow, rest] = [index % length, Math.floor(index / length)]
          return begin + Math.floor(rest / rows) * plane + (rest % rows) * row + inRow
        })
      const written = new Set(touched(destinationStrides, at))
      const isOverlapping = touched(sourceStrides, from).some((byte) => written.has(byte))
      const copies = () => stream.copy(image.subarray(at, 400), image.subarray(from, 400), options)
      if (isOverlapping) refused(copies, 'ERR_INVALID_ARG_VALUE', /Rows of destination and source overlap, at 0x/)
      else copies()
      verdicts[isOverlapping ? 'refused' : 'made'] += 1
    }
    assert.ok(verdicts.refused > 100 && verdicts.made > 100, JSON.stringify(verdicts))
  })

  it('takes no options, which are for rows', () => {
    using a = device.alloc(8, { stream })
    using b = device.alloc(8, { stream })
    const copy = stream.copy.bind(stream) as (...args: readonly unknown[]) => unknown
    refused(() => copy([[a, b]], undefined, { shape: [1, 8] }), 'ERR_INVALID_ARG_TYPE', /options must be left out/)
    refused(() => copy([[a, b]], b), 'ERR_INVALID_ARG_TYPE', /source must be left out/)
  })

  it('makes all of many or none: also where the last is of another driver, or a host function closes one in between', async () => {
    const COUNT = 600
    using to = device.alloc(4 * COUNT, { stream })
    const from = device.alloc(4 * COUNT, { stream })
    const pairs = Array.from(
      { length: COUNT },
      (_, index) => [to.subarray(4 * index, 4 * (index + 1)), from.subarray(4 * index, 4 * (index + 1))] as const,
    )
    const [elsewhere] = simulate().devices
    assert.ok(elsewhere !== undefined)
    using foreign = elsewhere.alloc(4)
    await stream.fill(to, 0).fill(from, 5).finished()
    refused(() => stream.copy([...pairs.slice(1), [to.subarray(0, 4), foreign]]), 'ERR_DEVICE_MISMATCH')
    assert.deepEqual([...new Set(await stream.download(to))], [0], 'none')

    // So many that no part but the first finds room before one of them has run.
    let ran = 0
    for (let queued = 0; queued < 700; queued += 1) {
      stream.launchHostFunc(() => {
        ran += 1
        if (ran === 100) from.close()
      })
    }
    stream.copy(pairs)
    assert.equal(from.closed, true, 'it has been closed in between')
    assert.deepEqual([...new Set(await stream.download(to))], [5], 'all')
  })

  it('the sanitizer sees each of many copies', async () => {
    using sanitizer = Sanitizer.start({ device })
    using from = device.alloc(64, { stream })
    using to = device.alloc(64, { stream })
    other.wait(stream)
    await device.finished()
    stream.copy([
      [to.subarray(0, 8), from.subarray(0, 8)],
      [to.subarray(32, 40), from.subarray(8, 16)],
    ])
    other.fill(to.subarray(16, 24), 1)
    await device.finished()
    assert.equal(sanitizer.reports.length, 0)
    stream.copy([
      [to.subarray(0, 8), from.subarray(0, 8)],
      [to.subarray(32, 40), from.subarray(8, 16)],
    ])
    other.fill(to.subarray(36, 38), 1)
    await device.finished()
    assert.equal(sanitizer.reports.length, 1)
  })
})
