/** Files of a timeline: by extension, whole, with nothing loaded from elsewhere. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { defineKernel, Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import { runsModule } from '../../helpers/run-time.js'
import { dataOfPage } from './page-data.js'
import { checkTraceFile } from './trace-format.js'

const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-timeline-'))
after(() => rmSync(directory, { recursive: true, force: true }))

async function sample(): Promise<Timeline> {
  const simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const hostile = nameStream(new Stream({ device }), '</script><b>"&')
  const other = nameStream(new Stream({ device }), 'other')
  return Timeline.record(
    () => {
      busy(hostile, 20_000)
      other.wait(hostile)
      busy(other, 10_000)
    },
    { simulation },
  )
}

describe('saving a timeline', () => {
  it('writes a page that loads nothing, and that no name can break out of', async () => {
    const path = join(directory, 'timeline.html')
    await (await sample()).save(path)
    const page = readFileSync(path, 'utf8')
    assert.match(page, /^<!doctype html>/)
    assert.doesNotMatch(page, /<script[^>]+src=|<link[^>]+href="(?!data:)|@import|url\(http|fetch\(|https?:\/\//)
    assert.equal(page.match(/<\/script>/g)?.length, 2, 'as many as the page itself has')
    assert.doesNotMatch(page, /\{\{title\}\}|"DATA"|\/\*STYLE\*\/|\/\*SCRIPT\*\//)
  })

  it('tells apart as many streams as there are, on the page too', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const count = 2 ** 16 + 1
    const timeline = await Timeline.record(
      () => {
        for (let i = 0; i < count; i += 1) {
          const stream = new Stream({ device })
          busy(stream, 10)
          stream.synchronize()
          stream.close()
        }
      },
      { simulation },
    )
    assert.equal(new Set(timeline.operations.map(({ stream }) => stream.id)).size, count)
    const { track, tracks } = dataOfPage(timeline.toHtml())
    const numbers = new Set(track)
    assert.deepEqual([tracks.length, numbers.size, Math.max(...numbers)], [count, count, count - 1])
  })

  it('writes a trace file', async () => {
    const path = join(directory, 'timeline.json')
    await (await sample()).save(path)
    checkTraceFile(readFileSync(path, 'utf8'))
  })

  it('writes the same compressed, and the summary as text', async () => {
    const timeline = await sample()
    await timeline.save(join(directory, 'timeline.JSON.gz'))
    const { length } = timeline.toJson()
    assert.equal(gunzipSync(readFileSync(join(directory, 'timeline.JSON.gz'))).toString(), timeline.toJson())
    assert.ok(readFileSync(join(directory, 'timeline.JSON.gz')).length < length)
    await timeline.save(join(directory, 'timeline.txt'))
    assert.equal(readFileSync(join(directory, 'timeline.txt'), 'utf8'), timeline.toText())
  })

  it('draws a picture: a bar for each operation, an arrow for each wait', async () => {
    const picture = (await sample()).toSvg({ width: 800, title: 'a < b' })
    assert.match(picture, /^<svg [^>]*viewBox="0 0 800 \d+"/)
    assert.match(picture, /a &lt; b/)
    assert.doesNotMatch(picture, /<script|<b>"/)
    assert.equal(picture.match(/<rect class="kernel0" /g)?.length, 3, 'two bars and the legend')
    assert.equal(picture.match(/<path class="arrow"/g)?.length, 1)
    assert.equal(picture.match(/<path class="critical"/g)?.length, 2, 'one line under each track')
    const bare = (await sample()).toSvg({ arrows: false, criticalPath: false, from: 0, to: 5000 })
    assert.doesNotMatch(bare, /class="arrow"|class="critical"/)
    assert.equal(bare.match(/<rect class="kernel0" /g)?.length, 2, 'one bar and the legend')
  })

  it('draws a narrow picture with the whole legend, in lines, and nothing beyond its edge', async () => {
    const timeline = await sample()
    const legend = (picture: string): readonly string[] =>
      [...picture.matchAll(/<text class="faint" x="[^"]*" y="[^"]*">([^<]*)</g)].map(([, name = '']) => name)
    const narrow = timeline.toSvg({ width: 200 })
    assert.deepEqual(legend(narrow), legend(timeline.toSvg({ width: 2000 })))
    const heights = new Set([...narrow.matchAll(/<text class="faint" x="[^"]*" y="([^"]*)">/g)].map(([, y]) => y))
    assert.ok(heights.size > 1, 'several lines')
    const height = Number(/viewBox="0 0 200 (\d+)"/.exec(narrow)?.[1])
    for (const y of heights) assert.ok(Number(y) < height)
    for (const [, left, width] of narrow.matchAll(/<rect [^>]*x="([^"]*)"[^>]* width="([^"]*)"/g))
      assert.ok(Number(left) + Number(width) <= 200, `${left} ${width}`)
  })

  it('gives each kernel a colour of its own, the same in every stretch', async () => {
    const simulation = simulate()
    const [device] = simulation.devices
    const kernels = ['one', 'two', 'three'].map((name) =>
      defineKernel({ name, source: '', signature: [], nanoseconds: 10_000, simulateGrid() {} }),
    )
    const timeline = await Timeline.record(
      () => {
        const stream = new Stream({ device })
        const data = device?.alloc(1000, { stream })
        for (const kernel of kernels) {
          if (data !== undefined) stream.fill(data, 0)
          stream.launch(kernel, { grid: 1, block: 1 })
        }
      },
      { simulation },
    )
    const bars = (picture: string): string[] =>
      [...picture.matchAll(/<rect class="(kernel\d)"[^>]* height="26"/g)].map(([, found]) => found ?? '')
    assert.deepEqual(bars(timeline.toSvg({})), ['kernel0', 'kernel1', 'kernel2'])
    const last = timeline.operations.findLast(({ name }) => name === 'three')
    assert.deepEqual(bars(timeline.toSvg({ from: last?.start })), ['kernel2'])
  })

  it('draws what ends as well-formed XML', async () => {
    const picture = (await sample()).toSvg({})
    const open: string[] = []
    for (const [, closing, name, , empty] of picture.matchAll(/<(\/?)([a-z]+)((?:\s[^<>]*?)?)(\/?)>/gi)) {
      if (closing === '/') assert.equal(open.pop(), name)
      else if (empty !== '/') open.push(name ?? '')
    }
    assert.deepEqual(open, [])
  })
})

describe('CUDA_STREAMS_TIMELINE', () => {
  const program = `
    import { Stream } from 'cuda-streams'
    import { busy } from 'cuda-streams/sim'
    const stream = new Stream()
    busy(stream, 1000)
    stream.launchHostFunc(() => {})
    await stream.finished()
    busy(stream, 2000)
    process.chdir('/')`
  const run = (file: string, source = program, env: NodeJS.ProcessEnv = {}) =>
    spawnSync(process.execPath, runsModule(source), {
      encoding: 'utf8',
      // Where this package is found by its name.
      cwd: import.meta.dirname,
      env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_TIMELINE: file, NODE_NO_WARNINGS: '1', ...env },
    })

  it('records a program that knows nothing of it', () => {
    const path = join(directory, 'whole.json')
    const { status, stderr } = run(path)
    assert.equal(stderr, '')
    assert.equal(status, 0)
    const json = readFileSync(path, 'utf8')
    checkTraceFile(json)
    const kernels = JSON.parse(json).traceEvents.filter(({ cat }: { cat: string }) => cat === 'kernel')
    assert.equal(Math.round(kernels[0].dur * 1000), 1000)
  })

  it('has the lines of the calls where CUDA_STREAMS_TIMELINE_SITES asks for them', () => {
    const path = join(directory, 'lines.json')
    const hasLines = (value: string): boolean => {
      assert.equal(run(path, program, { CUDA_STREAMS_TIMELINE_SITES: value }).status, 0)
      return readFileSync(path, 'utf8').includes('"call site"')
    }
    assert.deepEqual(['', '0', '1'].map(hasLines), [false, false, true])
  })

  it('writes each kind of file', () => {
    for (const [extension, begins] of [
      ['.json.gz', '{"schemaVersion":1'],
      ['.txt', '3.30 µs, 4 event records, driver sim'],
      ['.svg', '<svg '],
    ] as const) {
      const path = join(directory, `each${extension}`)
      assert.equal(run(path).status, 0)
      const bytes = readFileSync(path)
      const text = (extension.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
      assert.ok(text.startsWith(begins), text.slice(0, 40))
    }
  })

  it('writes a page, also where the program exits by itself with work pending', () => {
    const path = join(directory, 'whole.html')
    const { status } = run(path, `${program}; process.exit(3)`)
    assert.equal(status, 3)
    assert.match(readFileSync(path, 'utf8'), /^<!doctype html>/)
  })

  it('refuses, at the first use, a file that it cannot write', () => {
    const { status, stderr } = run(join(directory, 'whole.png'))
    assert.equal(status, 1)
    assert.match(stderr, /ERR_INVALID_ARG_VALUE/)
    assert.match(stderr, /\.html, \.json, \.json\.gz, \.svg or \.txt/)
  })

  it('refuses, at the first use, a file whose folder is missing or cannot be written, and a folder; and makes no file', () => {
    const file = join(directory, 'file')
    const folder = join(directory, 'folder.html')
    const locked = join(directory, 'locked')
    writeFileSync(file, '')
    mkdirSync(folder)
    mkdirSync(locked, { mode: 0o500 })
    const rows: readonly (readonly [path: string, says: RegExp])[] = [
      [join(directory, 'no', 'such', 'run.html'), /run\.html cannot be written: ENOENT/],
      [join(file, 'run.html'), /run\.html cannot be written: ENOTDIR/],
      [folder, /folder\.html cannot be written: EISDIR/],
      // The administrator can write everywhere.
      ...(process.getuid?.() === 0 ? [] : [[join(locked, 'run.html'), /cannot be written: EACCES/] as const]),
    ]
    for (const [path, says] of rows) {
      const { status, stderr } = run(path, `${program}; console.log('reached')`)
      assert.equal(status, 1, stderr)
      assert.match(stderr, /ERR_INVALID_ARG_VALUE/)
      assert.match(stderr, /CUDA_STREAMS_TIMELINE: the timeline /)
      assert.match(stderr, says)
    }
    // A program that never uses the library needs no file.
    assert.equal(run(join(directory, 'no', 'such', 'run.html'), "console.log('no GPU')").status, 0)
    const killed = join(directory, 'killed.html')
    run(killed, `${program}; process.kill(process.pid, 'SIGKILL')`)
    assert.ok(!existsSync(killed), 'nothing is written before the end')
  })

  it('tells at the end what could not be written since, and changes nothing else', () => {
    const own = join(directory, 'goes')
    mkdirSync(own)
    const { status, stderr } = run(
      join(own, 'run.html'),
      `${program}; process.getBuiltinModule('node:fs').rmdirSync(${JSON.stringify(own)})`,
    )
    assert.equal(status, 0)
    assert.match(stderr, /no timeline was written to .*run\.html/)
  })
})
