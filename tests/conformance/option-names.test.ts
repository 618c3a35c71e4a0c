/** What becomes of names that no option of a public call has: the calls and their options are those of the catalogue. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import { defineKernel } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { defineTritonKernel } from 'cuda-streams/triton'
import { type Call, valuesOf } from '../catalogue/call.js'
import { Lab } from '../catalogue/lab.js'
import { inTime, outcomeOf, outcomeWithin, Scene } from '../catalogue/scene.js'
import { allCalls } from '../catalogue/tools.js'
import { root } from '../helpers/root.js'
import { onEveryBackend } from '../helpers/suite.js'
import { checkError, refused } from './expect.js'

/** Places that refused a name: `streams/stream-impl.js:77:12`. */
const places = new Set<string>()
const PLACE = /dist[\\/]src[\\/]([^:)]+:\d+:\d+)/

/** The call with these options instead of its own must be refused, whether it throws or rejects. */
async function checkRefusal(
  name: string,
  invoke: (options: never) => unknown,
  options: object,
  says: (message: string) => boolean,
) {
  const { prepareStackTrace } = Error
  // The library shortens stacks that are written as usual.
  Error.prepareStackTrace = (_error, sites) => sites.join('\n')
  const { outcome, error } = await outcomeWithin(outcomeOf(() => invoke(options as never)))
  Error.prepareStackTrace = prepareStackTrace
  try {
    assert.ok(error instanceof Error, `${outcome}, not ERR_INVALID_ARG_VALUE`)
    checkError(error, 'ERR_INVALID_ARG_VALUE')
    assert.ok(says(error.message), error.message)
    // Each function that reads options is called by the place that has their names.
    for (const line of error.stack?.split('\n') ?? []) places.add(PLACE.exec(line)?.[1]?.split(sep).join('/') ?? '')
  } catch (cause) {
    throw new Error(`${name} with ${Object.keys(options).at(-1)}`, { cause })
  }
}

const withOptions = allCalls.filter(({ options }) => options !== undefined && options.isOpen !== true)
const namesOf = ({ options }: Call): readonly string[] => [
  ...Object.keys(options?.values ?? {}),
  ...(options?.others ?? []),
]

/** Without the function that reads the options of something on a device: its callers have the names. */
const sourceOf = (path: string): string =>
  readFileSync(path, 'utf8').replace(/function readOptionsOn.*?\n}/s, (body) => body.replaceAll(/[^\n]/g, ''))

onEveryBackend('names of options', (bench) => {
  const { device } = bench

  /** Each call with options, on objects of its own. */
  async function eachCall(
    visit: (call: Call, invoke: (options: never) => unknown, right: object) => Promise<void>,
  ): Promise<void> {
    const lab = await Lab.open(bench)
    for (const call of withOptions) {
      const scene = new Scene(
        lab,
        call,
        { stream: 'non-blocking' },
        'nothing',
        (call.memory ?? []).map(() => 'device'),
        true,
      )
      try {
        // What the simulator lacks is found out after the names are read.
        const lacks = await call.lacks?.({ lab, bench })
        if (lacks !== undefined && bench.name !== 'sim') continue
        const invoke = await call.prepare(scene)
        await visit(call, invoke, valuesOf(call, scene))
      } finally {
        scene.dispose()
      }
    }
    await inTime('the device', device.finished())
  }

  test('A6 a name that no option has is refused by every call, with the names that there are', async () => {
    await eachCall(async (call, invoke, right) => {
      const all = new Set(namesOf(call))
      await checkRefusal(call.name, invoke, { ...right, wwwwwwwwwwww: 1 }, (message) => {
        const [, list = ''] =
          /^(?:\w+: )?unknown option 'wwwwwwwwwwww' in .*: the options are '(.*)'$/.exec(message) ?? []
        const said = new Set(list.split("', '").filter((name) => name !== ''))
        return said.size === all.size && [...said].every((name) => all.has(name))
      })
    })
  })

  test('A6 a name that is nearly an option’s is refused by every call, with the one that was meant', async () => {
    await eachCall(async (call, invoke) => {
      const names = namesOf(call)
      for (const name of names.filter((each) => each.length > 2)) {
        const [first = '', ...rest] = name
        const slips = [name.toUpperCase(), `${first}${first}${rest.join('')}`, `${name}s`]
        for (const slip of slips.filter((each) => !names.includes(each))) {
          const says = new RegExp(`^(?:\\w+: )?unknown option '${slip}' in .*: did you mean '${name}'\\?$`)
          await checkRefusal(call.name, invoke, { [slip]: undefined }, (message) => says.test(message))
        }
      }
    })
  })

  test('A6 options objects of every realm and none are read by name; an object of a class, and one that inherits, may have more', () => {
    const unknown = { prioritty: -1 }
    const refusedOptions = [
      { ...unknown },
      { prioritty: undefined },
      Object.assign(Object.create(null), unknown),
      runInNewContext('({ prioritty: -1 })'),
    ]
    for (const options of refusedOptions) {
      refused(() => device.createStream(options), 'ERR_INVALID_ARG_VALUE', /'prioritty'.*did you mean 'priority'/)
    }
    class Settings {
      prioritty = -1
      priority = 0
    }
    const acceptedOptions: readonly object[] = [
      new Settings(),
      Object.assign(Object.create({ priority: 0 }), unknown),
      { [Symbol('prioritty')]: -1 },
      Object.defineProperty({}, 'prioritty', { value: -1 }),
    ]
    for (const options of acceptedOptions) device.createStream(options).close()
  })

  test('A6 and so is one in the description of a kernel of Triton, of its launch and choice, and of a tensor', async () => {
    const ptx = '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry none() { ret; }'
    const definition = { name: 'none', signature: [], configs: [{ meta: {}, variants: [{ ptx, warps: 1 }] }] } as const
    const kernel = defineTritonKernel(definition)
    using stream = device.createStream()
    using buffer = device.alloc(64, { stream })
    const calls: readonly (readonly [name: string, invoke: (options: never) => unknown, right: object])[] = [
      ['defineTritonKernel()', (options) => defineTritonKernel(options), definition],
      ['kernel.choose()', (options) => kernel.choose(options), { meta: {} }],
      ['stream.launch()', (options) => stream.launch(kernel, options), { grid: 1 }],
      ['buffer.tensorMap()', (options) => buffer.tensorMap(options), { type: 'u8', shape: [64], box: [16] }],
    ]
    for (const [name, invoke, right] of calls)
      await checkRefusal(name, invoke, { ...right, wwwwwwwwwwww: 1 }, (message) =>
        message.includes("unknown option 'wwwwwwwwwwww'"),
      )
  })

  // A machine with a GPU may lack libraries.
  if (bench.name === 'sim') {
    test('A6 they were refused at each place where options are read', () => {
      const unseen: string[] = []
      const compiled = join(root, 'dist', 'src')
      for (const name of readdirSync(compiled, { recursive: true, encoding: 'utf8' })) {
        if (!name.endsWith('.js') || name === join('foundation', 'base', 'arguments.js')) continue
        for (const [index, line] of sourceOf(join(compiled, name)).split('\n').entries()) {
          const { index: at } = /\breadOptions(?:On)?\(/.exec(line) ?? {}
          if (at === undefined) continue
          const place = `${name.split(sep).join('/')}:${index + 1}:`
          if (![...places].some((each) => each.startsWith(place))) unseen.push(`${place} ${line.trim()}`)
        }
      }
      assert.ok(places.size > 40)
      assert.deepEqual(unseen, [], 'an entry of the catalogue with these options is missing')
    })
  }
})

test('A6 a launch of the same shape as the last one is read as well', () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using stream = device.createStream()
  const kernel = defineKernel({ name: 'none', source: '', signature: [], simulateGrid: () => {} })
  stream.launch(kernel, { grid: 1, block: 1 })
  const slip = { grid: 1, block: 1, sharedmemory: 64 }
  refused(() => stream.launch(kernel, slip), 'ERR_INVALID_ARG_VALUE', /'sharedmemory'.*'sharedMemory'/)
  stream.synchronize()
})
