/** What a program calls its things, in each output: no name commands a terminal, breaks XML, or begins a line of its own. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { type Device, defineKernel, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { explore, fault, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import { printable } from '../../src/foundation/base/printable.js'
import { callSite, programLines, shortCallSite, takeStack } from '../../src/foundation/base/stack.js'
import { collectingUncaught } from '../../src/foundation/base/uncaught.js'
import { warnOnce } from '../../src/foundation/base/warnings.js'
import { type Report, textOf } from '../../src/tools/cli/report.js'
import { dataOfPage } from '../tools/timeline/page-data.js'

const NASTY: Readonly<Record<string, string>> = {
  'an escape sequence': '\x1b[2J\x1b]0;gone\x07',
  NUL: '\0',
  'a line feed': '\n',
  'a carriage return': '\r',
  BEL: '\x07',
  DEL: '\x7f',
  'a control character of C1': '\x9b31m',
  'a line separator': '\u2028',
  'a paragraph separator': '\u2029',
  'text turned round': '\u202egnp.\u202c',
  'text set apart': '\u2066x\u2069',
  'the first half of a pair': 'a\ud83d',
  'the second half of a pair': '\ude00a',
  'what is no character': '\ufffe\uffff',
  'the end of CDATA': ']]>',
  'the end of a comment': '-->',
  'the end of a script': '</script><!--',
  'quotes and a backslash': '"\'\\',
  'a pair where it is cut': `${'n'.repeat(20)}${'\u{1f600}'.repeat(40)}`,
}
/** What no output has, but for the line feeds of its own. */
const FORBIDDEN = /(?!\n)[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Noncharacter_Code_Point}]/u
const PLAIN = 'plain'

function open(
  simulation: Simulation = simulate(),
  name?: string,
): { simulation: Simulation; device: Device; stream: Stream } {
  const [device] = simulation.devices
  assert.ok(device)
  return { simulation, device, stream: new Stream({ device, name }) }
}

/** The name of a kernel must not have a NUL in it, since C has it too. */
const kernelName = (name: string): string => name.replaceAll('\0', '') || PLAIN
const kernelOf = (name: string, simulateGrid = (_grid: unknown, _bytes: Uint8Array): void => {}) =>
  defineKernel({ name: kernelName(name), source: '', signature: ['inout u8*'], simulateGrid })

async function timelineOf(name: string): Promise<Timeline> {
  const { simulation, device, stream } = open()
  const data = device.alloc(16, { stream })
  nameStream(stream, name)
  return Timeline.record(
    () => {
      stream.launch(kernelOf(name), { grid: 1, block: 1 }, data)
      stream.external({ name, memory: [], simulate: () => {}, nanoseconds: 50_000 }, () => {})
      stream.synchronize()
      new Stream({ device, name }).wait(stream).fill(data, 1).synchronize()
    },
    { simulation },
  )
}

async function messageOf(act: () => unknown): Promise<string> {
  try {
    await act()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new assert.AssertionError({ message: 'it threw nothing' })
}

/** Calls the function from one that has the name; with a line feed in it V8's stacks are not to be told apart. */
function calledIn<R>(given: string, fn: () => R): R {
  const name = given.replaceAll('\n', ' ')
  return { [name]: () => fn() }[name]?.() as R
}

type Output = (name: string) => string | Promise<string>

const OUTPUTS: Readonly<Record<string, Output>> = {
  'the text of a timeline': async (name) => (await timelineOf(name)).toText(),
  'the data of a timeline': async (name) => {
    const { streams, operations, summary } = await timelineOf(name)
    return [...streams, ...operations].map((each) => each.name).join() + JSON.stringify(summary)
  },
  'the picture of a timeline': async (name) => (await timelineOf(name)).toSvg({ title: name }),
  'the trace of a timeline': async (name) => {
    const json = (await timelineOf(name)).toJson()
    return JSON.parse(json)
      .traceEvents.map((event: { name: string; args?: { name?: string } }) => {
        return `${event.name} ${event.args?.name}`
      })
      .join()
  },
  'the head of a page': async (name) => {
    const page = (await timelineOf(name)).toHtml({ title: name })
    return page.slice(0, page.indexOf('<style'))
  },
  'the data of a page': async (name) => {
    const { names, tracks } = dataOfPage((await timelineOf(name)).toHtml())
    return [...names, ...tracks.map((track) => track.name)].join()
  },
  'a report of the sanitizer': (name) => {
    const { device, stream } = open()
    using sanitizer = Sanitizer.start({ device, stacks: 'all' })
    const data = device.alloc(16, { stream })
    const other = new Stream({ device, name })
    nameStream(stream, name).launch(kernelOf(name), { grid: 1, block: 1 }, data)
    calledIn(name, () => void other.launch(kernelOf(name), { grid: 1, block: 1 }, data))
    const [report] = sanitizer.reports
    assert.equal(report?.kind, 'race')
    return `${report.message}${report.second.stream}${report.second.what}`
  },
  'an exploration': async (name) => {
    const { message } = await explore(async ({ devices: [device] }) => {
      const [one, two] = [new Stream({ device }), new Stream({ device })]
      const data = device?.alloc(1, { stream: one })
      assert.ok(data)
      await one.finished()
      const kernel = (value: number) => kernelOf(name, (_grid, bytes) => void bytes.fill(value))
      one.launch(kernel(1), { grid: 1, block: 1 }, data)
      two.launch(kernel(2), { grid: 1, block: 1 }, data)
      await Promise.all([one.finished(), two.finished()])
      const [byte] = await one.download(data)
      throw new Error(byte === 1 ? name : `${name} again`)
    })
    assert.match(message, /disagree/)
    return message
  },
  'a graph in DOT': (name) => {
    const { device, stream } = open()
    const data = device.alloc(16, { stream })
    return stream.capture(() => void stream.launch(kernelOf(name), { grid: 1, block: 1 }, data)).toDot()
  },
  'the name of a stream': (name) => {
    const { name: given } = open(simulate(), name).stream
    return given
  },
  'what prints itself': (name) => `${kernelOf(name)} ${inspect(kernelOf(name))}`,
  'the doctor': (name) => {
    const part = { problem: name }
    const report: Report = {
      ok: false,
      problems: [name],
      version: '1.0.0',
      runtime: { name: 'node', version: '20.0.0' },
      platform: { system: 'linux', arch: 'x64', libc: null },
      variables: { CUDA_STREAMS_DRIVER: name },
      traces: [],
      kernelDriver: null,
      cache: { folder: '/cache' },
      neededCuda: '12.5',
      devices: [{ ordinal: 0, name, memory: null, computeCapability: '9.0', works: true }],
      libraries: { NCCL: part },
      native: part,
    }
    // Problems may have lines, such as those of an error.
    return textOf({ ...report, problems: [name.replaceAll('\n', ' ')] })
  },
  'lines of a stack': (name) => calledIn(name, () => `${programLines(takeStack(9))}${callSite()}${shortCallSite()}`),
  'an error for an option': (name) => messageOf(() => new Stream({ [name]: 1 } as object)),
  'an error for a value': (name) => messageOf(() => new Stream({ priority: name as never })),
  'an error of a kernel that is beyond its memory': async (name) => {
    const { device, stream } = open()
    const data = device.alloc(1, { stream })
    const beyond = defineKernel({
      name: kernelName(name),
      source: '',
      signature: ['inout u8*'],
      simulate: ({ globalX }, bytes) => {
        bytes[globalX] = 1
      },
    })
    const thrown: string[] = []
    await collectingUncaught(
      (error) => thrown.push(String(error)),
      () => stream.launch(beyond, { grid: 1, block: 2 }, data).finished(),
    )
    assert.equal(thrown.length, 1)
    return thrown.join()
  },
  'an error that says who has the memory': (name) => {
    const { device, stream } = open(simulate({ memory: 2 ** 26 }))
    assert.ok(stream.id)
    const data = device.alloc(2 ** 25, { stream: nameStream(stream, name) })
    return messageOf(() => device.alloc(2 ** 30)).finally(() => data.close())
  },
  'an error that a wait reports': (name) => {
    const { device, stream } = open()
    const data = device.alloc(1, { stream })
    fault(stream)
    stream.launch(kernelOf(name), { grid: 1, block: 1 }, data)
    return messageOf(() => stream.finished())
  },
  'a warning': async (name) => {
    const given = new Promise<Error>((resolve) => process.once('warning', resolve))
    warnOnce('CUDA_STREAMS_TEST', `of ${inspect(kernelOf(name))} ${Math.random()}`)
    return (await given).message
  },
}
/** Their names are the whole of what they quote: nothing of the program's own. */
const XML = ['the picture of a timeline']

const lines = (text: string): number => text.split('\n').length

describe('a name', () => {
  it('that has nothing of that is shown as it is', () => {
    for (const name of [
      '',
      'axpy',
      'größe · 大きさ',
      '\u{1f600}',
      "a 'b' \\n <c>",
      'e\u0301',
      '\u{1f469}\u200d\u{1f680}',
    ]) {
      assert.equal(printable(name), name)
    }
  })

  for (const [what, output] of Object.entries(OUTPUTS)) {
    for (const [kind, name] of Object.entries(NASTY)) {
      it(`does no harm in ${what}: ${kind}`, async () => {
        const [text, usual] = [await output(name), await output(PLAIN)]
        assert.doesNotMatch(text, FORBIDDEN)
        if (name.includes('\n') || name.includes('\r')) assert.equal(lines(text), lines(usual), text)
        if (XML.includes(what)) checkXml(text)
        if (what === 'a graph in DOT') checkDot(text)
        if (what === 'the head of a page') assert.doesNotMatch(text, /<\/script>/)
      })
    }
  }
})

/** Well-formed, as XML 1.0 has it, of what the library uses of that, for a text without the forbidden characters. */
function checkXml(text: string): void {
  const open: string[] = []
  let rest = text.trim()
  while (rest !== '') {
    const [tag, closing, name = '', empty] = /^<(\/?)([a-zA-Z]+)(?:\s+[a-zA-Z:-]+="[^"<]*")*\s*(\/?)>/.exec(rest) ?? []
    const [content] = /^[^<]+/.exec(rest) ?? []
    const token = tag ?? content
    assert.ok(token !== undefined, rest.slice(0, 100))
    assert.doesNotMatch(token, /&(?!(amp|lt|gt|quot|#\d+|#x[\da-f]+);)/)
    if (tag === undefined) assert.ok(open.length > 0 && !token.includes(']]>'), token)
    else if (closing === '/') assert.equal(open.pop(), name)
    else if (empty !== '/') open.push(name)
    rest = rest.slice(token.length)
  }
  assert.deepEqual(open, [])
}

/** A label ends at the first quote that is not escaped. */
function checkDot(text: string): void {
  for (const line of text.trim().split('\n').slice(1, -1)) {
    assert.match(line, /^ {2}n\d+ (\[label="([^"\\]|\\.)*"\]|-> n\d+)$/)
  }
}
