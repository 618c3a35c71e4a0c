/** What loading a text of PTX costs: bodies are read where they are used, and what was read and compiled is there for the next machine. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Module, Stream } from '../../src/entry-points/index.js'
import { simulate } from '../../src/entry-points/sim.js'
import { BlockMachine } from '../../src/ptx/block-machine.js'
import { endOfBody, LineCounter } from '../../src/ptx/body-extent.js'
import { compiling } from '../../src/ptx/compiled-parts.js'
import { parseDeclarations, parsePtx } from '../../src/ptx/parser.js'
import { keptTexts, MOST_READ_AT_ONCE, textWork } from '../../src/ptx/shared-text.js'
import type { PtxFunction } from '../../src/ptx/syntax.js'
import { root } from '../helpers/root.js'
import { Machine, ptxOf } from './machine.js'

const HEADER = '.version 8.0\n.target sm_90\n.address_size 64\n'

/** A kernel that stores a number, with what stands before its end. */
const kernelOf = (name: string, number: number, rest = ''): string => `.visible .entry ${name}(.param .u64 out)
{ // callseq {{{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  { .reg .b32 %r<2>; mov.u32 %r1, ${number}; st.global.u32 [%rd1], %r1; }
  ${rest}
  ret;
}
`

/** A text that is too long to be read whole when it is loaded. No two are the same text, unless they have the same title. */
const long = (title: string, body: string): string =>
  `${HEADER}// ${title}\n${body}\n// ${'-'.repeat(MOST_READ_AT_ONCE)}\n`

const short = (title: string, body: string): string => `${HEADER}// ${title}\n${body}`

const numbered = (count: number): string =>
  Array.from({ length: count }, (_, index) => kernelOf(`k${index}`, index)).join('')

/** All of a function, without the scopes, of which each instruction has one that leads to the others. */
function partsOf(fn: PtxFunction | undefined): unknown {
  if (fn === undefined) return undefined
  const { name, entry, line, isDefined, results, parameters, parameterRegisters, directives } = fn
  const { registers, variables, body } = fn
  const instructions = body?.map(({ scope, ...rest }) => ({ ...rest, labels: [...scope.labels.keys()] }))
  const head = { name, entry, line, isDefined, results, parameters, parameterRegisters, directives }
  return { ...head, registers, variables, instructions }
}

/** The work that something takes. */
function workOf(run: () => void): { texts: number; bodies: number; programs: number; parts: number } {
  const before = { ...textWork, ...compiling }
  run()
  return {
    texts: textWork.texts - before.texts,
    bodies: textWork.bodies - before.bodies,
    programs: textWork.programs - before.programs,
    parts: compiling.parts - before.parts,
  }
}

const NO_WORK = { texts: 0, bodies: 0, programs: 0, parts: 0 }
const SIGNATURE = ['out u32*'] as const

/** Loads a text on a simulation of its own. */
const loaded = (text: string | Uint8Array): Module => Module.load(text, { device: simulate().devices[0] })

function errorOf(run: () => unknown): { readonly code: string; readonly message: string; readonly number?: number } {
  try {
    run()
  } catch (error) {
    return error as { code: string; message: string }
  }
  throw new Error('Nothing was thrown')
}

describe('the bodies of a long text', () => {
  it('are read where they are used', () => {
    const text = long('used', numbered(1000))
    let module: Module | undefined
    assert.deepEqual(
      workOf(() => {
        module = loaded(text)
      }),
      { ...NO_WORK, texts: 1 },
    )
    const used = workOf(() => module?.kernel('k617', SIGNATURE))
    assert.deepEqual(used, { ...NO_WORK, bodies: 1, programs: 1, parts: 1 })
    assert.deepEqual(
      workOf(() => module?.kernel('k617', SIGNATURE)),
      NO_WORK,
    )
  })

  it('are read with those of the functions that they reach', () => {
    const called = '.func leaf() { ret; }\n.func called() { call leaf; ret; }\n.func other() { ret; }\n'
    const module = loaded(long('reached', `${called}${kernelOf('k', 1, 'call called;')}${kernelOf('l', 2)}`))
    assert.equal(workOf(() => module.kernel('k', SIGNATURE)).bodies, 3)
  })

  it('run as those of a short one do', async () => {
    const stream = new Stream({ device: simulate().devices[0] })
    const module = Module.load(long('runs', numbered(300)), { device: stream.device })
    const out = stream.device.alloc(4)
    stream.launch(module.kernel('k299', SIGNATURE), { grid: 1, block: 1 }, out)
    assert.equal((await stream.download(out, Uint32Array))[0], 299)
  })

  for (const file of readdirSync(join(root, 'tests/ptx/kernels'))) {
    if (!file.endsWith('.ptx.br')) continue
    it(`are what they are if they are read at once: ${file}`, () => {
      const text = ptxOf(file.replace('.ptx.br', ''))
      const declared = parseDeclarations(text, () => {})
      const whole = parsePtx(text)
      assert.deepEqual([...declared.variables], [...whole.variables])
      assert.deepEqual([...declared.functions.keys()], [...whole.functions.keys()])
      for (const [name, fn] of whole.functions) {
        const other = declared.functions.get(name)
        assert.deepEqual(partsOf(other), partsOf(fn), name)
      }
    })
  }

  it('are read at once where they declare what the module has', () => {
    let read = 0
    const body = kernelOf('k', 1, '.global .u32 counter; .extern .shared .b8 all[];')
    const text = parseDeclarations(`${HEADER}${body}${kernelOf('l', 2)}`, () => void read++)
    assert.deepEqual([...text.variables.keys()], ['counter', 'all'])
    assert.equal(text.functions.get('k')?.isDefined, true)
    assert.equal(text.functions.get('k')?.variables.length, 1)
    assert.equal(read, 0)
    assert.equal(text.functions.get('l')?.body?.length, 4)
    assert.equal(read, 1)
  })

  it('end behind their brace, whatever comments and texts have in them', () => {
    const bodies = [
      '{}',
      '{ {} }',
      '{ // }\n}',
      '{ /* } */ }',
      '{ .pragma "}"; }',
      '{ # }\n }',
      '{ ld.global.u32 {%a, %b}, [c]; }',
    ]
    for (const body of bodies) assert.equal(endOfBody(`x ${body} } "`, 2), body.length + 2, body)
    for (const body of ['{', '{ /* }', '{ "}\n', '{ .global .u32 a; }', '{\n.file 1 "a" }'])
      assert.equal(endOfBody(body, 0), undefined, body)
  })

  it('have the lines of the text', () => {
    const text = 'a\nb\n\ncd\n'
    const lines = new LineCounter(text)
    for (const [offset, line] of [
      [0, 1],
      [1, 1],
      [2, 2],
      [4, 3],
      [6, 4],
      [7, 4],
      [8, 5],
      [3, 2],
    ] as const)
      assert.equal(lines.at(offset), line, `offset ${offset}`)
    assert.equal(new LineCounter(text, 3, 2).at(6), 4)
  })
})

describe('a text that an assembler refuses', () => {
  const MISTAKES: Readonly<Record<string, string>> = {
    'a name that is not declared': 'mov.u32 %r1, %q;',
    'a form that came later': 'add.f32x2 %rd1, %rd1, %rd1;',
    'an operand of another type': 'add.u32 %rd1, %rd1, %rd1;',
    'a label that is nowhere': 'bra nowhere;',
    'too much shared memory': '.shared .b8 all[65536]; mov.u32 %r1, all;',
    'the wrong number of operands': 'add.u32 %r1;',
    'a sign that no PTX has': '`',
  }
  for (const [what, mistake] of Object.entries(MISTAKES)) {
    const body = kernelOf('good', 1) + kernelOf('broken', 2, mistake) + kernelOf('better', 3)

    it(`is refused when it is loaded if it is short, though no kernel with ${what} is used`, () => {
      const error = errorOf(() => loaded(short(what, body)))
      assert.equal(error.number, 218)
    })

    it(`is refused where a kernel with ${what} is looked up if it is long, with the same error`, () => {
      const module = loaded(long(what, body))
      module.kernel('good', SIGNATURE)
      const error = errorOf(() => module.kernel('broken', SIGNATURE))
      assert.equal(error.message, errorOf(() => loaded(short(what, body))).message)
      assert.equal(error.message, errorOf(() => module.kernel('broken', SIGNATURE)).message)
      assert.equal(error.number, 218)
      module.kernel('better', SIGNATURE)
    })
  }

  it('is refused for a function that a kernel calls', () => {
    const body = `.func called() { bra nowhere; }\n${kernelOf('k', 1, 'call called;')}${kernelOf('l', 2)}`
    const module = loaded(long('called', body))
    module.kernel('l', SIGNATURE)
    assert.match(errorOf(() => module.kernel('k', SIGNATURE)).message, /line 5\b/)
  })

  it('is refused when it is loaded for what is wrong outside of bodies, with the error that reading all of it has', () => {
    const texts = {
      'a body that is not closed': kernelOf('a', 1, '{') + kernelOf('b', 2),
      'a brace too many': kernelOf('a', 1, '}') + kernelOf('b', 2),
      'a name that is there twice': kernelOf('a', 1) + kernelOf('a', 2),
      'a directive that no function has': kernelOf('a', 1).replace(')\n', ')\n.wrong 1\n'),
      'a mistake in a body before one outside': `${kernelOf('a', 1, '`')}.wrong ${' '.repeat(20)}`,
    }
    for (const [what, body] of Object.entries(texts)) {
      const error = errorOf(() => loaded(long(what, body)))
      assert.equal(error.message, errorOf(() => loaded(short(what, body))).message, what)
      assert.equal(error.number, 218)
    }
  })
})

describe('the same text', () => {
  for (const [length, text] of [
    ['long', long('again', numbered(500))],
    ['short', short('again', numbered(20))],
  ] as const) {
    it(`is read and compiled once for all simulations: a ${length} one`, async () => {
      const modules = [loaded(text)]
      modules[0]?.kernel('k7', SIGNATURE)
      for (const image of [text, Buffer.from(text), new TextEncoder().encode(` ${text}`).subarray(1)]) {
        const stream = new Stream({ device: simulate().devices[0] })
        const out = stream.device.alloc(4)
        const work = workOf(() => {
          const module = Module.load(image, { device: stream.device })
          modules.push(module)
          stream.launch(module.kernel('k7', SIGNATURE), { grid: 1, block: 1 }, out)
        })
        assert.deepEqual(work, NO_WORK)
        assert.equal((await stream.download(out, Uint32Array))[0], 7)
      }
      assert.equal(modules.length, 4)
    })
  }

  it('is another one when the bytes of its image are changed', () => {
    const image = Buffer.from(short('changed', kernelOf('k', 1)))
    const first = loaded(image)
    image[image.lastIndexOf('.entry k') + 7] = 'j'.charCodeAt(0)
    const second = loaded(image)
    assert.throws(() => first.kernel('j', SIGNATURE))
    second.kernel('j', SIGNATURE)
  })

  for (const options of [{}, { recorded: true }, { recorded: true, checked: true }]) {
    test(`computes the same on a machine whose memory lies elsewhere, with ${JSON.stringify(options)}`, () => {
      const text = short(
        `elsewhere ${JSON.stringify(options)}`,
        `.global .align 4 .u32 table[2] = {40, 2};
${kernelOf('k', 1, 'ld.global.u32 %r1, [table]; mov.u64 %rd2, table; ld.global.u32 %r2, [%rd2+4]; add.u32 %r1, %r1, %r2; st.global.u32 [%rd1], %r1;')}`,
      )
      const kept = []
      // First addresses move, and then locations in WebAssembly's memory as well.
      for (const [addresses, locations] of [
        [0, 16],
        [0, 16],
        [4096, 16],
        [4096, 4096],
        [0, 16],
      ] as const) {
        const machine = new Machine()
        machine.allocate(addresses)
        machine.memory.allocate(locations)
        const module = machine.load(text)
        kept.push(module)
        const out = machine.put(new Uint32Array(1))
        machine.run(module, 'k', options, [out])
        assert.equal(machine.get(out, new Uint32Array(1))[0], 42)
      }
      assert.equal(kept.length, 5)
    })
  }

  it('is compiled again for a machine whose memory lies elsewhere, and for no other', () => {
    const text = short('places', kernelOf('k', 1))
    const kept: unknown[] = []
    const partsOn = (bytes: number): number => {
      const machine = new Machine()
      if (bytes > 0) machine.memory.allocate(bytes)
      const module = machine.load(text)
      kept.push(module)
      return workOf(() => module.code('k')).parts
    }
    assert.deepEqual([0, 0, 4096, 4096, 0].map(partsOn), [1, 0, 1, 0, 0])
    assert.equal(kept.length, 5)
  })

  it('is read by a worker as far as its kernel reaches', () => {
    const machine = new BlockMachine()
    const kernel = { text: short('worker', numbered(20)), kernel: 'k3', addresses: new Map<string, number>() }
    assert.deepEqual(
      workOf(() => machine.load(1, kernel)),
      { texts: 1, bodies: 1, programs: 1, parts: 1 },
    )
    assert.deepEqual(
      workOf(() => machine.load(2, { ...kernel, kernel: 'k4' })),
      { texts: 0, bodies: 1, programs: 1, parts: 1 },
    )
  })

  it('is kept no longer than modules have it', async (t) => {
    const { gc } = globalThis
    if (gc === undefined) return t.skip('needs --expose-gc')
    const before = keptTexts()
    const load = (): void => {
      for (let index = 0; index < 20; index++)
        new Machine().load(short(`gone ${index}`, kernelOf('k', index))).code('k')
    }
    load()
    assert.ok(keptTexts() >= before + 1)
    const kept = new Machine().load(short('kept', kernelOf('k', 1)))
    for (let round = 0; round < 20 && keptTexts() > 1; round++) {
      await turn()
      gc()
      await turn()
    }
    assert.ok(keptTexts() <= before + 1, `${keptTexts()} texts are kept, and ${before} were before`)
    const other = new Machine()
    assert.deepEqual(
      workOf(() => void other.load(short('kept', kernelOf('k', 1)))),
      NO_WORK,
    )
    assert.equal(kept.kernels.length, 1)
  })
})
