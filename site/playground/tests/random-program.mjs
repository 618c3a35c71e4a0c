// Random programs as text: streams of all kinds, memory, events, host functions, kernels, graphs, waits and queries, whatever
// comes of them. No time that passes by itself: how far the GPU is then is chance.

/** A number below the limit each time, the same for the same seed. */
function randomFrom(seed) {
  let state = (seed * 2_654_435_761 + 1) % 2_147_483_647
  return (limit) => {
    state = (state * 48_271) % 2_147_483_647
    return Math.floor((state / 2_147_483_647) * limit)
  }
}

const IMPORTS = [
  "import { CudaError, cudaStream, DeviceBuffer, defineKernel, Device, Event, ExternalStream, Graph, Kernel, MemoryPool, Module, Stream } from 'cuda-streams'",
  "import { busy, destroyForeignStream, foreignStream, latch, simulationOf } from 'cuda-streams/sim'",
]

/** How many are compared: the programs of the seeds from 1 on. */
export const RANDOM_PROGRAMS = 100

/** Bytes of each buffer. */
const BYTES = 8

/** Adds to each byte the one that lies opposite in another buffer, through shared memory, and counts the threads. */
const PTX = `.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 threads;
.visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 more)
{
  .shared .align 1 .b8 bytes[${BYTES}];
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  ld.param.u32 %r1, [more];
  mov.u32 %r2, %tid.x;
  cvt.u64.u32 %rd3, %r2;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u8 %r3, [%rd4];
  mov.u64 %rd5, bytes;
  add.s64 %rd6, %rd5, %rd3;
  st.shared.u8 [%rd6], %r3;
  bar.sync 0;
  xor.b32 %r4, %r2, ${BYTES - 1};
  cvt.u64.u32 %rd7, %r4;
  add.s64 %rd8, %rd5, %rd7;
  ld.shared.u8 %r5, [%rd8];
  add.s64 %rd4, %rd1, %rd3;
  ld.global.u8 %r6, [%rd4];
  add.s32 %r7, %r6, %r5;
  add.s32 %r7, %r7, %r1;
  st.global.u8 [%rd4], %r7;
  atom.global.add.u32 %r8, [threads], 1;
  ret;
}`

export function randomProgram(seed) {
  const random = randomFrom(seed)
  const of = (names) => names[random(names.length)]
  const maybe = (text) => (random(2) === 0 ? text : '')
  const own = ['a', 'b', 'c']
  const hasGreen = random(2) === 0
  if (hasGreen) own.push('g')
  const streams = [...own, 'Stream.null', ...(random(3) === 0 ? ['Stream.perThread'] : [])]
  const buffers = ['x', 'y', 'z']
  const two = (names) => {
    const first = random(names.length)
    return [names[first], names[(first + 1 + random(names.length - 1)) % names.length]]
  }
  const stream = () => of(streams)
  const buffer = () => of(buffers)
  const mark = () => `marks[${random(2)}]!`
  const bytes = () => `Uint8Array.of(${Array.from({ length: BYTES }, () => random(256))})`
  let words = 0

  const lines = [
    ...IMPORTS,
    'const device = Device.get()',
    `const a = new Stream({ priority: ${-random(2)} })`,
    `const b = new Stream({ nonBlocking: ${random(2) === 0} })`,
    'const c = device.createStream()',
    ...(hasGreen
      ? [
          `const [part] = device.split({ multiprocessors: [${8 * (1 + random(4))}] })`,
          'const g = new Stream({ context: part! })',
        ]
      : []),
    `const pool = new MemoryPool({ device${maybe(`, releaseThreshold: ${random(2) * 4096}`)}${maybe(', maxBytes: 2 ** 25')} })`,
    ...buffers.map((name) => `const ${name} = device.alloc(${BYTES}, { stream: ${stream()}${maybe(', pool')} })`),
    `const pinned = device.allocPinned(${BYTES})`,
    'const flags = device.allocPinned(256)',
    'flags.bytes.fill(0)',
    "const add = defineKernel({ name: 'add', source: '', signature: ['inout u8*', 'in u8*', 'i32'], simulateGrid: (grid, to, from, more) => { to.forEach((_, at) => { to[at] = to[at]! + from[at]! + more }) } })",
    `const ptx = ${JSON.stringify(PTX)}`,
    "const module = Module.load(ptx, { device }); const mix = module.kernel('mix', ['inout u8*', 'in u8*', 'u32']); const threads = module.global('threads')",
    "const defined = defineKernel({ name: 'mix', ptx, signature: ['inout u8*', 'in u8*', 'u32'] }); await defined.prepare(device)",
    "console.log(defined.global('threads', device).byteLength)",
    // Its first launch loads code, which is refused while a stream waits for a promise.
    'await add.prepare(device)',
    'const marks = [a.record(), new Event({ device, timing: true }).record(b)]',
    'const log: string[] = []',
    // What the collector takes away, and when, is no outcome: the memory, events and graphs of programs stay reachable.
    "const kept: object[] = [a, b, c, pool, x, y, z, pinned, flags, add, module, mix, threads, defined, ...marks]; Reflect.set(globalThis, 'kept', kept)",
    'const keep = <T extends object>(one: T): T => { kept.push(one); return one }',
    'const say = (...values: unknown[]) => void log.push(values.map(String).join())',
    'const tell = (one: object) => console.log(one, Object.prototype.toString.call(one), String(one))',
  ]

  const work = (on) =>
    of([
      () => `${on}.fill(${buffer()}, ${random(256)})`,
      () => `${on}.copy(${two([...buffers, 'pinned']).join(', ')})`,
      () => `${on}.launch(add, { grid: 1, block: ${1 + random(4)} }, ${two(buffers).join(', ')}, ${random(9)})`,
      () => `${on}.launch(mix, { grid: 1, block: ${BYTES} }, ${two(buffers).join(', ')}, ${random(9)})`,
      () => `${on}.launchHostFunc(() => say('in', simulationOf(device).now))`,
    ])()

  /** A graph of one stream, or of two that part and join. */
  const capture = () => {
    const [on, beside] = two(own)
    const spread = random(2) === 0 ? `; ${beside}.wait(${on}); ${work(beside)}; ${on}.wait(${beside})` : ''
    const work3 = [work(on), `${on}.fill(${buffer()}, 1)`, work(on)].join('; ')
    const graph =
      random(3) === 0
        ? `${on}.beginCapture(${maybe("'relaxed'")}); ${work3}${spread}; const graph = keep(${on}.endCapture())`
        : `const graph = keep(${on}.capture(() => { ${work3}${spread} }${maybe(", { mode: 'global' }")}))`
    const change = of([
      () => `for (const node of graph.nodes) if (node.kind === 'fill') exec.update(node, ${buffer()}, ${random(256)})`,
      () =>
        `for (const node of graph.nodes) if (node.kind === 'copy') try { exec.update(node, ${two(buffers).join(', ')}) } catch (error) { say(error.code) }`,
      () =>
        `for (const node of graph.nodesOf(add)) exec.update(node, { grid: 1, block: 1 }, ${two(buffers).join(', ')}, 1)`,
      () =>
        `for (const node of graph.nodesOf(mix)) exec.update(node, { grid: 1, block: ${BYTES} }, ${two(buffers).join(', ')}, 1)`,
      () =>
        `for (const node of graph.nodes) if (node.kind === 'fill') say(exec.setEnabled(node, ${random(2) === 0}).isEnabled(node), exec.handle > 0n)`,
      () => 'exec.update(graph)',
      () => `exec.upload(${stream()})`,
      () => `keep(keep(${on}.capture(() => ${on}.launch(graph))).instantiate()).launch(${on})`,
      () => "say(graph.toDot().split('\\n').length, graph.nodeCount)",
    ])
    const launch = random(2) === 0 ? `exec.launch(${stream()})` : `${stream()}.launch(exec)`
    const look =
      'say(graph.nodes.map(({ kind, after }) => kind + after.length), graph.closed, String(graph).slice(0, 5), graph.handle > 0n)'
    const tell = maybe('; tell(graph); tell(exec)')
    const close = of([
      '',
      '; graph.close(); say(exec.closed); exec.close()',
      '; graph[Symbol.dispose](); exec[Symbol.dispose]()',
    ])
    return `{ ${graph}; ${look}; const exec = keep(graph.instantiate()); ${change()}; ${launch}${tell}${close} }`
  }

  const steps = [
    () => work(stream()),
    () => work(stream()),
    () => `${stream()}.fill(${buffer()}.subarray(4, 8), ${random(60_000)}, { width: 2 })`,
    () => `${stream()}.fill(${buffer()}, ${random(256)}, { shape: [2, 2], strides: [${3 + random(2)}] })`,
    () => `${stream()}.copy(${two(buffers).join(', ')}, { shape: [2, 2], destinationStrides: [${2 + random(5)}] })`,
    () => `${stream()}.copy(${two(buffers).join(', ')}, { shape: [2, 2, 2], sourceStrides: [4, 2] })`,
    () => {
      const [to, from] = two(buffers)
      const third = buffers.find((name) => name !== to && name !== from)
      const halves = `[${to}.subarray(0, 4), ${from}.subarray(4, 8)], [${third}.subarray(4, 8), pinned.subarray(0, 4)]`
      return `${stream()}.copy([${of([`[${to}, ${from}], [pinned, ${third}]`, halves])}])`
    },
    () => `${stream()}.wait(${stream()})`,
    () => `${stream()}.wait(${stream()}${maybe(`, { event: ${mark()} }`)})`,
    () => `${stream()}.wait(device)`,
    () => `${stream()}.record(${mark()})`,
    () => `${mark()}.record(${stream()})`,
    () => `${stream()}.wait(${mark()})`,
    () => `${mark()}.wait(${stream()})`,
    () => `${mark()}.synchronize()`,
    () => `busy(${stream()}, ${random(20_000)})`,
    () => {
      const label = random(1000)
      return `${stream()}.launchHostFunc(() => void log.push('${label} at ' + simulationOf(device).now))`
    },
    () => `${stream()}.addCallback((its, status, given) => say(its.priority, status, given), ${random(9)})`,
    () => `say(${stream()}.query(), ${stream()}.isCapturing, ${stream()}.captureStatus, ${stream()}.name.length > 0)`,
    () => `${stream()}.synchronize()`,
    () => `await ${stream()}.finished()`,
    () => 'await device.finished()',
    () => 'device.drainHostFunctions()',
    () => `say(await ${stream()}.download(${buffer()}))`,
    () => `say(await ${stream()}.download(${buffer()}, Uint16Array))`,
    () => `say(await ${stream()}.download(${buffer()}, new Uint8Array(${BYTES})))`,
    () => `${stream()}.upload(${buffer()}, ${bytes()})`,
    () =>
      `{ const made = ${stream()}.bufferFrom(${bytes()}); say(made.byteLength, await a.download(made)); made.close() }`,
    () => `${stream()}.fill(${buffer()}, ${random(9)} / 4, { type: 'f32' })`,
    () => `pinned.bytes.fill(${random(256)})`,
    () => `pinned.view(Float32Array)[1] = ${random(100)} / 8`,
    () => `say(pinned.subarray(2, 6).bytes.join(), pinned.closed, ${buffer()}.pointer > 0n)`,
    () => `if (${mark()}.query()) log.push('done')`,
    () => `console.log(${buffer()}.byteLength, ${mark()}.timing)`,
    () => `say(marks[0] === undefined, await ${mark()}.finished())`,
    // Times by events: those of the simulator are its own.
    () => {
      const on = stream()
      return `{ const from = keep(${on}.record({ timing: true })); ${work(on)}; const to = keep(${on}.record({ timing: true })); await to.finished(); say(to.elapsedSince(from)) }`
    },
    // A word for each pair, written before it is waited for: the wait ends.
    () => {
      const [first, second] = two(streams)
      const where = `{ byteOffset: ${8 * (words % 32)} }`
      words += 1
      const compare = maybe(`, compare: '${of(['geq', 'eq', 'and'])}'`)
      const long = random(2) === 0 ? 'n' : ''
      return `${first}.writeValue(flags, 5${long}, ${where}); ${second}.waitValue(flags, 5${long}, ${where.replace(' }', `${compare} }`)})`
    },
    () => {
      const on = stream()
      return `${on}.wait(Promise.resolve(${random(9)})); await ${of(['null', `${on}.finished()`, `${on}.finished()`])}`
    },
    () => {
      const on = stream()
      return `{ let go = () => {}; ${on}.wait(new Promise<void>((resolve) => { go = resolve })); ${work(on)}; say(${on}.query()); go(); await ${on}.finished() }`
    },
    () => {
      const [on, other] = two(streams)
      return `{ const held = latch(${on}); ${other}.wait(${on}); say(${other}.query()); held.open() }`
    },
    capture,
    capture,
    capture,
    // Memory of pools.
    () =>
      `{ const more = device.alloc(${2 ** (4 + random(12))}, { stream: ${stream()}, pool }); say(pool.used, pool.peakUsed); ${stream()}.fill(more, 1); more.close() }`,
    () => 'say(pool.trim().reserved, pool.resetPeaks().peakReserved)',
    () =>
      `pool.releaseThreshold = ${random(3) * 512}; say(pool.releaseThreshold, device.memoryPool.used, device.memory.total > device.memory.free)`,
    // The code of kernels.
    () =>
      `say(mix.activeBlocks(${32 * (1 + random(8))}), String(mix), module.closed, await a.download(threads, Uint32Array))`,
    () =>
      `{ const more = Module.load(ptx, { device }); ${of(['more.close()', 'more[Symbol.dispose]()'])}; say(more.closed) }`,
    () => 'tell(module); tell(mix)',
    // What is current: in scopes, and from here on.
    () => `say(${of(own)}.run(() => Stream.current(device).priority + keep(device.alloc(4)).byteLength))`,
    () => {
      const [on, other] = two(own)
      return `await ${on}.run(async () => { await null; say(Stream.current().equals(${on})); ${mark()}.record(); await ${other}.finished() })`
    },
    () => {
      const [on, other] = two(own)
      return `{ const scope = ${on}.enter(); ${other}.run(() => ${mark()}.wait()); say(Stream.current(device) === ${on}); scope[Symbol.dispose]() }`
    },
    () => `${of(own)}.use(); say(Stream.current().nonBlocking)`,
    () =>
      `say(device.run(() => Device.current().ordinal), device.use() === Device.current()); device.enter()[Symbol.dispose]()`,
    () => `say(device.defaultStream === Stream.null, ${stream()}.wait(device.defaultStream).closed)`,
    // Streams and memory of others, and our own by other names.
    () => {
      const on = stream()
      return `{ const handle = foreignStream(device); const theirs = ${of(['Stream.from(handle)', 'new ExternalStream(handle, { owner: log })'])}; theirs.wait(${on}); ${work('theirs')}; ${on}.wait(theirs); theirs.close(); await ${on}.finished(); destroyForeignStream(handle) }`
    },
    () =>
      `keep(Stream.from(${of(own)}.share())).wait(keep(Event.from(${mark()}.share()))).fill(keep(DeviceBuffer.from(${buffer()}.share())), 3)`,
    () =>
      `${stream()}.fill(keep(DeviceBuffer.from(${buffer()}.pointer, ${BYTES}, { device, owner: log })), ${random(256)})`,
    () =>
      `say(keep(new ExternalStream(${of(own)}, { owner: log })).owner === log, keep(DeviceBuffer.from(x.pointer, 4, { owner: log })).owner === log)`,
    () =>
      `say(keep(Event.from(${mark()}.handle, { device })).equals(${mark()}), ${stream()}.wait(${stream()}.cachedEvent).closed)`,
    () =>
      `${stream()}.external({ name: 'theirs', memory: [{ buffer: ${buffer()} }], simulate: () => say('theirs') }, (handle) => say(typeof handle))`,
    // Kernels, pools and graphs by their handles.
    () =>
      `{ const theirs = Kernel.from(mix.handle, ['inout u8*', 'in u8*', 'u32'], { device }); ${stream()}.launch(theirs, { grid: 1, block: ${BYTES} }, ${two(buffers).join(', ')}, 1); say(theirs.module.handle === module.handle) }`,
    () => `{ const same = MemoryPool.from(pool.handle, { device }); say(same.handle === pool.handle); same.close() }`,
    () => {
      const on = of(own)
      return `{ const graph = keep(${on}.capture(() => { ${on}.fill(${buffer()}, 1) })); ${on}.launch(keep(keep(Graph.from(graph.handle, { device })).instantiate())) }`
    },
    () =>
      `{ const range = device.profilerRange(); a.copyAttributes(b); say(device.usage().memory.total > 0); range[Symbol.dispose]() }`,
    // What objects tell of themselves.
    () =>
      `say(Stream.compare(a, ${stream()}), ${stream()}.equals(b), a[cudaStream]()[0], typeof c.valueOf(), c.handle > 0n, b.id > a.id, a.context.device === device)`,
    () => `for (const one of [a, Stream.perThread, keep(new ExternalStream(b)), device, ${mark()}]) tell(one)`,
    () => `for (const one of [x, pinned, pool, add${hasGreen ? ', part!' : ''}]) tell(one)`,
    () => {
      const makes = [
        ...['device.alloc(8)', 'device.allocPinned(8)', 'new MemoryPool({ device })', 'device.createEvent()'],
        ...(hasGreen ? ['device.split({ multiprocessors: [8] })[0]!'] : []),
      ]
      return `for (const make of [${makes.map((make) => `() => ${make}`).join(', ')}]) { const [one, other] = [make(), make()]; one.close(); other[Symbol.dispose](); say(one.closed, other.closed) }`
    },
    () => `say(${buffer()}.closed, pinned.closed, pinned.pointer > 0n, String(pinned).length)`,
    () =>
      `say(Device.count(), Device.all().length, Device.fromPciBusId(device.pciBusId) === device, device.canAccess(device), device.driver, device.priorityRange.greatest, device.computeCapability.major, device.attribute('multiprocessorCount'), device.context.device.ordinal, device.uuid, device.pciBusId, device.name, String(device))`,
    () =>
      `say(${mark()}.closed, String(${mark()}).length, ${of(own)}.closed, pool.closed, pool.handle > 0n, String(pool).length)`,
    () =>
      `{ const more = device.createEvent({ timing: true }); more.record(${stream()}); more.close(); say(more.closed) }`,
    () =>
      `{ const more = new Stream(); ${work('more')}; ${of(['more.close()', 'more[Symbol.dispose]()', 'await more[Symbol.asyncDispose]()'])}; say(more.closed) }`,
    ...(hasGreen
      ? [
          () => 'say(part!.closed, g.context === part, part!.handle > 0n, String(part).length)',
          () => `{ const more = device.split({ multiprocessors: [8] })[0]!; more.close(); say(more.closed) }`,
        ]
      : []),
    // Some end in an error, which is an outcome, too.
    () => (random(6) === 0 ? `a.fill(${buffer()}, ${256 + random(3)})` : `c.wait(a)`),
    () => (random(6) === 0 ? `${buffer()}.close()` : `a.wait(b)`),
    () => (random(6) === 0 ? `b.wait(Promise.reject(new Error('no')))` : `b.wait(c)`),
    () =>
      random(6) === 0
        ? `${of(own)}.launchHostFunc(() => { throw new RangeError('inside') })`
        : `await add.prepare(device)`,
    () =>
      `try { Stream.null.beginCapture() } catch (error) { say(error instanceof CudaError, error.name, error.code) }`,
  ]
  // Each is in some program, before an error ends it.
  lines.push(steps[seed % steps.length]())
  const count = 3 + random(25)
  for (let step = 0; step < count; step += 1) lines.push(of(steps)())
  lines.push('device.synchronize()', 'export const bytes = [await a.download(x), await b.download(y), pinned.bytes]')
  lines.push('export { log }', 'export const now = simulationOf(device).now', '')
  return lines.join('\n')
}
