/**
 * The page in a real browser. With a hundred thousand operations: zoomed, searched, an arrow followed, by pointer and by
 * keyboard, in light and dark. With small programs of which the answer is known: what it says of them, and what it draws.
 * CUDA_STREAMS_TEST_SCREENSHOTS names a directory for pictures of each step.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { type Device, defineKernel, Module, Stream } from 'cuda-streams'
import { busy, type Simulation, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import type { Browser, Page } from 'playwright-core'
import { findChromium, NO_CHROMIUM } from '../../helpers/chromium.js'

const OPERATIONS = 100_000
const SCREENSHOTS = process.env['CUDA_STREAMS_TEST_SCREENSHOTS']
const VIEWPORT = { width: 1440, height: 860 }

async function openPlaywright(): Promise<typeof import('playwright-core') | string> {
  try {
    return await import('playwright-core')
  } catch (error) {
    return `no playwright-core here: ${error instanceof Error ? error.message : error}`
  }
}

/** Pipelines on two devices: what is waited for differs from item to item. */
async function hundredThousand(): Promise<Timeline> {
  const simulation = simulate({ devices: 2 })
  const lines = simulation.devices.map((device) =>
    ['upload', 'compute', 'download'].map((name) => nameStream(new Stream({ device }), name)),
  )
  let state = 1
  const random = (): number => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
  return Timeline.record(
    async () => {
      simulation.devices[1]?.synchronize()
      for (let item = 0; item < OPERATIONS / 8; item += 1) {
        const [upload, compute, download] = lines[item % 2] ?? []
        assert.ok(upload && compute && download)
        busy(upload, 2000 + random() * 8000)
        compute.wait(upload)
        busy(compute, 4000 + random() * 9000)
        busy(compute, 500 + random() * 1000)
        download.wait(compute)
        busy(download, 1000 + random() * 5000)
        if (item % 100 === 99) await download.finished()
        if (item % 500 === 499) download.launchHostFunc(() => {})
      }
    },
    { simulation },
  )
}

const chromium = findChromium()
const playwright = await openPlaywright()
const missing = chromium === undefined ? NO_CHROMIUM : typeof playwright === 'string' ? playwright : undefined

/** Writes down what the browser complains about, and requests that leave the file. */
function watch(page: Page, problems: string[]): void {
  page.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`))
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('request', (request) => {
    if (!/^(file|data):/.test(request.url())) problems.push(`asks for ${request.url()}`)
  })
}

/** Waits until nothing moves any more. */
async function settled(page: Page): Promise<void> {
  await page.waitForFunction('window.timelineFrames?.length > 0')
  let last = ''
  for (let same = 0; same < 3; ) {
    await page.waitForTimeout(60)
    const now = await page.locator('#status').innerText()
    same = now === last ? same + 1 : 0
    last = now
  }
}

async function launch(): Promise<Browser> {
  assert.ok(chromium !== undefined && typeof playwright !== 'string')
  // The page asks for nothing that the sandbox guards, and CI runs as root.
  return playwright.chromium.launch({ executablePath: chromium, args: ['--no-sandbox'] })
}

describe('the page, in Chromium', { skip: missing, timeout: 1_800_000 }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-page-'))
  const problems: string[] = []
  let browser: Browser
  let page: Page

  before(async () => {
    const path = join(directory, 'timeline.html')
    const timeline = await hundredThousand()
    assert.ok(timeline.operations.length >= OPERATIONS)
    await timeline.save(path)
    browser = await launch()
    page = await browser.newPage({ viewport: VIEWPORT, colorScheme: 'light' })
    watch(page, problems)
    await page.goto(pathToFileURL(path).href)
    await settled(page)
  })

  after(async () => {
    await browser?.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const status = (): Promise<string> => page.locator('#status').innerText()
  const details = (): Promise<string> => page.locator('#details').innerText()
  const press = async (key: string): Promise<void> => {
    await page.locator('#tracks').press(key)
    await settled(page)
  }
  const picture = async (name: string): Promise<void> => {
    if (SCREENSHOTS !== undefined) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) })
  }
  /** How long a stretch is in view, as the page says it. */
  async function span(): Promise<number> {
    const units: Readonly<Record<string, number>> = { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 }
    const read = (text = ''): number => {
      const [value, unit = 'ns'] = text.split(' ')
      return Number(value) * (units[unit] ?? Number.NaN)
    }
    const [from, to] = (await status()).split(' · ')[0]?.split(' to ') ?? []
    return read(to) - read(from)
  }
  /** The colour behind everything. */
  const background = (): Promise<string> =>
    page.evaluate(`(() => {
      const canvas = document.querySelector('#tracks')
      const copy = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
      copy.drawImage(canvas, -5, 5 - canvas.height)
      return String(copy.getImageData(0, 0, 1, 1).data)
    })()`)

  it('opens with everything in view', async () => {
    await picture('1-opened')
    assert.match(await page.locator('#about').innerText(), /^100,\d+ operations · .* · virtual time, exact$/)
    assert.match(await status(), /arrows: zoom in to see them$/)
    for (const name of ['upload', 'compute', 'download']) {
      assert.equal(await page.locator('#labels .track', { hasText: name }).count(), 2)
    }
  })

  it('zooms by the wheel, around the pointer', async () => {
    const whole = await span()
    await page.mouse.move(700, 500)
    for (let turn = 0; turn < 12; turn += 1) await page.mouse.wheel(0, -240)
    await settled(page)
    await picture('2-zoomed')
    assert.ok((await span()) < whole / 100, `${await span()} of ${whole}`)
    assert.doesNotMatch(await status(), /arrows: zoom in/)
  })

  it('moves when dragged', async () => {
    const before = await status()
    await page.mouse.move(800, 500)
    await page.mouse.down()
    await page.mouse.move(500, 500, { steps: 5 })
    await page.mouse.up()
    await settled(page)
    assert.notEqual(await status(), before)
  })

  it('shows what is under the pointer, and what was clicked', async () => {
    const label = await page.locator('#labels .track', { hasText: 'compute' }).first().boundingBox()
    const y = (label?.y ?? 0) + (label?.height ?? 0) / 2
    for (let x = 300; x < 1000 && (await page.locator('#tooltip').isHidden()); x += 7) await page.mouse.move(x, y)
    assert.match(await page.locator('#tooltip').innerText(), /^busy .*compute, device 0 · at /s)
    await page.mouse.down()
    await page.mouse.up()
    await picture('3-selected')
    assert.match(await details(), /busy\s+kernel · compute/)
    assert.match(await details(), /It could not begin sooner/)
  })

  it('steps from operation to operation, and follows what held one up to another stream', async () => {
    await page.locator('#search').fill('wait download')
    await page.locator('#search').press('Enter')
    await settled(page)
    assert.match(await details(), /^wait\s+wait · download/)
    await page.locator('#tracks').focus()
    await press('Enter')
    assert.match(await details(), /record · compute/)
    await picture('4-followed')
    await press(']')
    assert.match(await details(), /compute/)
    await press('Escape')
    assert.match(await details(), /^Point at a bar/)
  })

  it('finds by name, kind and stream, goes to the first, and says how many', async () => {
    await press('Escape')
    await page.locator('#search').fill('busy upload')
    assert.equal(await page.locator('#found').innerText(), '1 of 12,500')
    await settled(page)
    assert.match(await details(), /busy\s+kernel · upload/)
    await page.locator('#tracks').focus()
    await press('n')
    assert.equal(await page.locator('#found').innerText(), '2 of 12,500')
    await press('f')
    await picture('5-searched')
    await page.locator('#search').fill('synchronize device 1')
    assert.equal(await page.locator('#found').innerText(), '1 of 1')
    await page.locator('#search').fill('no such thing')
    assert.equal(await page.locator('#found').innerText(), '0 found')
    await page.locator('#search').press('Escape')
    assert.equal(await page.locator('#found').innerText(), '')
  })

  it('lists the idle gaps with what they waited for, those alike in one row, and goes there', async () => {
    const first = page.locator('#gaps .row').first()
    const rows = await page.locator('#gaps .row').allInnerTexts()
    assert.match(rows[0] ?? '', /ms.* × \d+.*(waits for|queued only after).*, .* at most/s)
    const said = rows.map((row) => row.replace(/^.*\n|, [^,]* at most$/g, '').replace(/ × .*/, ''))
    assert.equal(new Set(said).size, said.length, 'no two rows say the same')
    await first.click()
    await settled(page)
    await picture('6-gap')
    assert.match(await page.locator('#spoken').innerText(), /stood idle for/)
    assert.ok((await span()) < 5e6)
  })

  it('lists the critical path, and goes there', async () => {
    assert.match(await page.locator('#path-title').innerText(), /^Critical path \(.* of the time\)$/)
    await page.locator('#path .row').nth(3).click()
    await settled(page)
    assert.match(await details(), /busy/)
  })

  it('is used by the keyboard alone', async () => {
    await page.locator('#tracks').focus()
    await press('f')
    const whole = await span()
    await press('w')
    assert.ok((await span()) < whole)
    const zoomed = await status()
    await press('ArrowRight')
    assert.notEqual(await status(), zoomed)
    await press('Home')
    assert.match(await status(), /^0 to/)
    await press('?')
    assert.equal(await page.locator('#help').isVisible(), true)
    await picture('7-help')
    await page.keyboard.press('Escape')
    assert.equal(await page.locator('#help').isVisible(), false)
    await press('0')
  })

  it('is light or dark as the system is, or as it is told', async () => {
    const light = await background()
    await page.emulateMedia({ colorScheme: 'dark' })
    await settled(page)
    const dark = await background()
    assert.notDeepEqual(light, dark)
    await picture('8-dark')
    await page.locator('#theme').click()
    await settled(page)
    assert.deepEqual(await background(), light, 'told to be light')
    await page.locator('#theme').click()
    await page.emulateMedia({ colorScheme: 'light' })
    await settled(page)
    assert.deepEqual(await background(), dark, 'told to be dark')
    await page.locator('#theme').click()
  })

  it('has a name for everything that can be focused', async () => {
    const nameless = await page.evaluate(`[...document.querySelectorAll('button, input, canvas[tabindex]')]
      .filter((one) => {
        const label = one.getAttribute('aria-label') ?? one.closest('label')?.textContent ?? one.textContent
        return label.trim() === ''
      })
      .map((one) => one.outerHTML)`)
    assert.deepEqual(nameless, [])
  })

  it('draws fast enough to be dragged about (measured, not judged)', async (context) => {
    await page.evaluate('window.timelineFrames = []')
    await press('f')
    await page.mouse.move(700, 500)
    for (let turn = 0; turn < 60; turn += 1) await page.mouse.wheel(0, turn < 30 ? -120 : 120)
    await settled(page)
    const frames = await page.evaluate<number[]>('window.timelineFrames.sort((a, b) => a - b)')
    const at = (share: number): string => (frames[Math.floor((frames.length - 1) * share)] ?? 0).toFixed(1)
    context.diagnostic(
      `${OPERATIONS} operations: ${frames.length} frames, median ${at(0.5)} ms, 95 % under ${at(0.95)} ms, longest ${at(1)} ms`,
    )
    assert.ok(frames.length > 0)
  })

  it('has no complaint on the console, and asks for nothing from outside', () => {
    assert.deepEqual(problems, [])
  })
})

interface Drawn {
  readonly text: string
  readonly x: number
  readonly y: number
}

describe('what the page says and draws, in Chromium', { skip: missing, timeout: 1_800_000 }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-page-'))
  const problems: string[] = []
  let browser: Browser

  before(async () => {
    browser = await launch()
  })

  after(async () => {
    await browser?.close()
    rmSync(directory, { recursive: true, force: true })
    assert.deepEqual(problems, [])
  })

  /** Records a program with streams of these names, and opens its page. */
  async function opened<T>(
    program: (machine: {
      simulation: Simulation
      device: Device
      stream: (name: string, nonBlocking?: boolean) => Stream
    }) => T,
    options: Parameters<Browser['newPage']>[0] = {},
    profile = false,
  ): Promise<{ page: Page; timeline: Timeline }> {
    const simulation = simulate()
    const [device] = simulation.devices
    assert.ok(device)
    const stream = (name: string, nonBlocking = true): Stream => nameStream(new Stream({ device, nonBlocking }), name)
    const timeline = await Timeline.record(() => program({ simulation, device, stream }), {
      simulation,
      callSites: true,
      profile,
    })
    const path = join(directory, 'page.html')
    await timeline.save(path)
    const page = await browser.newPage({
      viewport: VIEWPORT,
      colorScheme: 'light',
      reducedMotion: 'reduce',
      ...options,
    })
    watch(page, problems)
    // What is written on the canvas, by frame.
    await page.addInitScript(`{
      window.drawn = []
      const { fillText, fillRect } = CanvasRenderingContext2D.prototype
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const at = this.getTransform().transformPoint({ x, y })
        window.drawn.push({ text, x: at.x, y: at.y })
        return fillText.call(this, text, x, y)
      }
      // A copy is read: the browser complains of a canvas that is drawn on and read.
      window.pixelsOf = (x, y, width, height) => {
        const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })
        copy.drawImage(document.querySelector('#tracks'), -x, -y)
        return copy.getImageData(0, 0, width, height).data
      }
      CanvasRenderingContext2D.prototype.fillRect = function (x, y, width, height) {
        if (this.canvas.id === 'tracks' && x === 0 && y === 0 && height > 300) window.drawn = []
        return fillRect.call(this, x, y, width, height)
      }
    }`)
    await page.goto(pathToFileURL(path).href)
    await settled(page)
    return { page, timeline }
  }
  const drawn = (page: Page): Promise<Drawn[]> => page.evaluate<Drawn[]>('window.drawn')
  const press = async (page: Page, ...keys: string[]): Promise<void> => {
    for (const key of keys) await page.locator('#tracks').press(key)
    await settled(page)
  }
  /** Where a time is on the track of a name, in pixels of the window. */
  async function placeOf(
    page: Page,
    timeline: Timeline,
    name: string,
    time: number,
  ): Promise<{ x: number; y: number }> {
    const label = await page.locator('#labels .track', { hasText: name }).first().boundingBox()
    const area = await page.locator('#area').boundingBox()
    assert.ok(label && area)
    const share = (0.01 + time / timeline.duration) / 1.02
    return { x: area.x + share * area.width, y: label.y + label.height / 2 }
  }
  /** The colour of the canvas there. */
  const colourAt = (page: Page, { x, y }: { x: number; y: number }): Promise<string> =>
    page.evaluate(`(() => {
      const box = document.querySelector('#tracks').getBoundingClientRect()
      return String(pixelsOf(${x} - box.x, ${y} - box.y, 1, 1))
    })()`)
  /** How much of the track of a name is drawn in colours in which blue outweighs the rest, as bars of 'busy' are. */
  async function filled(page: Page, name: string): Promise<number> {
    const label = await page.locator('#labels .track', { hasText: name }).first().boundingBox()
    const area = await page.locator('#area').boundingBox()
    assert.ok(label && area)
    const margin = 0.02 * area.width
    return page.evaluate(`(() => {
      const data = pixelsOf(${margin}, ${label.y - area.y + 3}, ${area.width - 2 * margin}, ${label.height - 6})
      let blue = 0
      for (let at = 0; at < data.length; at += 4) if (data[at + 2] > data[at] + 60) blue += 1
      return blue / (data.length / 4)
    })()`)
  }
  const text = (page: Page, selector: string): Promise<string> => page.locator(selector).first().innerText()

  it('says at its top how busy each stream was, what overlapped, and what held the streams up, with advice', async () => {
    const { page, timeline } = await opened(async ({ device, stream }) => {
      const [upload, compute] = [stream('upload'), stream('compute')]
      const buffer = device.alloc(1 << 20, { stream: upload })
      for (let frame = 0; frame < 6; frame += 1) {
        await upload.upload(buffer, new Uint8Array(1 << 20))
        upload.synchronize()
        busy(compute, 50_000)
        compute.synchronize()
      }
    })
    const { streams, stalls } = timeline.summary
    const shown = (await page.locator('#streams .row').allInnerTexts()).map((row) => row.split('\n'))
    for (const { name, share } of streams.filter(({ busy }) => busy > 0)) {
      const [, percent = ''] = shown.find(([of]) => of === name) ?? []
      assert.ok(Math.abs(Number.parseFloat(percent) - 100 * share) <= 0.5, `${name}: ${percent} of ${share}`)
    }
    assert.match(await text(page, '#overlaps'), /^Device 0: 0 % of the copying overlapped\./)
    assert.equal(await text(page, '#verdict'), timeline.summary.verdict.replaceAll('`', ''))
    const first = await text(page, '#stalls .row:has-text("synchronize()")')
    assert.match(first, /synchronize\(\) at .*page\.test\.js:\d+.* held/)
    assert.match(first, /wait\(/)
    assert.equal(await page.locator('#stalls .row').count(), stalls.length)
    await page.close()
  })

  it('says of a kernel what the simulator has counted, and the line in which most could be better', async () => {
    const code = `.version 8.0
.target sm_70
.address_size 64
.visible .entry mirror(.param .u64 data)
{
.reg .b32 %r<4>; .reg .b64 %rd<5>; .shared .align 4 .b8 tile[4096];
.loc 1 5 1
ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r2, [%rd3];
.loc 1 6 1
mul.wide.u32 %rd2, %r1, 128; add.s64 %rd4, %rd1, %rd2;
st.global.u32 [%rd4], %r2;
.loc 1 7 1
mov.u32 %r3, tile; shl.b32 %r1, %r1, 7; add.u32 %r3, %r3, %r1;
st.shared.u32 [%r3], %r2;
ret;
}
.file 1 "mirror.cu"
`
    const { page } = await opened(
      ({ device, stream }) => {
        const first = stream('first')
        const data = device.alloc(4096, { stream: first })
        first.launch(Module.load(code, { device }).kernel('mirror', ['inout u32*']), { grid: 2, block: 32 }, data)
      },
      {},
      true,
    )
    await page.locator('#path .row', { hasText: 'mirror' }).click()
    const said = await text(page, '#details')
    if (SCREENSHOTS !== undefined) await page.screenshot({ path: join(SCREENSHOTS, 'profile.png') })
    assert.match(said, /occupancy\s+50 %: 32 blocks of 32 threads fit on a multiprocessor at the same time/)
    assert.match(
      said,
      /global memory\s+18 sectors a request; 4 would do; worst in mirror\.cu:6: 32 sectors, 4 would do/,
    )
    assert.match(said, /shared memory\s+31 bank conflicts a request.*; worst in mirror\.cu:7: 31 bank conflicts/)
    assert.doesNotMatch(said, /branches/)
    await page.close()
  })

  it('leaves waits that took no time out of what held an operation up', async () => {
    const { page } = await opened(({ device, stream }) => {
      const [a, b] = [stream('first'), stream('second')]
      const memory = device.alloc(1 << 20, { stream: b })
      busy(a, 10_000)
      busy(b, 60_000)
      b.wait(a)
      b.fill(memory, 0)
    })
    await page.locator('#path .row', { hasText: 'fill' }).click()
    const said = await text(page, '#details')
    assert.match(said, /It could not begin sooner\s+it comes after, in the stream,\s+busy\s+second/)
    assert.doesNotMatch(said, /wait/)
    await page.close()
  })

  it('has rows as high as there is room for', async () => {
    const program = (streams: number) => async (): Promise<number> => {
      const { page } = await opened(({ stream }) => {
        for (let index = 0; index < streams; index += 1) busy(stream(`stream ${index}`), 10_000)
      })
      const tall = (await page.locator('#labels .track', { hasText: 'stream 0' }).first().boundingBox())?.height ?? 0
      await page.close()
      return tall
    }
    const [few, many] = [await program(2)(), await program(12)()]
    assert.ok(few > 42 && few > many, `${few}, ${many}`)
  })

  it('marks the gaps of what held streams up when that is pressed, and lists them', async () => {
    const { page, timeline } = await opened(({ stream }) => {
      const [a, b] = [stream('first'), stream('second')]
      for (let item = 0; item < 5; item += 1) {
        busy(a, 60_000)
        b.wait(a)
        busy(b, 20_000)
      }
      a.synchronize()
      busy(a, 30_000)
    })
    const [gap] = timeline.gaps.filter(({ stream }) => stream.name === 'second')
    assert.ok(gap)
    const { x, y } = await placeOf(page, timeline, 'second', (gap.begin + gap.end) / 2)
    const at = { x, y: y - 19 }
    const before = await colourAt(page, at)
    const cause = page.locator('#stalls .row').nth(timeline.summary.stalls.findIndex(({ kind }) => kind === 'wait'))
    await cause.focus()
    await page.keyboard.press('Enter')
    await settled(page)
    const during = await colourAt(page, at)
    assert.notEqual(during, before, 'the gap is marked')
    assert.equal(await cause.getAttribute('aria-pressed'), 'true')
    assert.match(await text(page, '#gaps-title'), /^Marked gaps \(.* in 4\)$/)
    await cause.click()
    await settled(page)
    assert.equal(await colourAt(page, at), before, 'and not any more')
    assert.match(await text(page, '#gaps-title'), /^Idle gaps/)
    await page.close()
  })

  it('hatches and names where the null stream holds a stream up, and says for what it waits', async () => {
    const { page, timeline } = await opened(({ device, stream }) => {
      const [blocking, other] = [stream('blocking', false), stream('other')]
      for (let item = 0; item < 3; item += 1) {
        busy(blocking, 100_000)
        busy(device.defaultStream, 80_000)
        busy(other, 10_000)
      }
    })
    const names = (await drawn(page)).filter(({ text }) => text.startsWith('null stream'))
    assert.equal(names.length, 5, 'two on the blocking stream, three on the null stream')
    const second = timeline.operations.filter(({ stream }) => stream.name === 'blocking')[1]
    const { x, y } = await placeOf(page, timeline, 'blocking', (second?.start ?? 0) - 40_000)
    await page.mouse.move(x, y)
    assert.match(await text(page, '#tooltip'), /held up by the null stream: waits for busy on null stream$/)
    await page.close()
  })

  it('says for which record of which stream a wait waits, and where that was queued', async () => {
    const { page, timeline } = await opened(({ stream }) => {
      const [a, b] = [stream('first'), stream('second')]
      busy(b, 5000)
      busy(a, 80_000)
      b.wait(a)
      busy(b, 20_000)
    })
    const { x, y } = await placeOf(page, timeline, 'second', 40_000)
    await page.mouse.move(x, y)
    assert.match(
      await text(page, '#tooltip'),
      /^wait .*for record on first, queued at .*page\.test\.js:\d+:\d+, behind busy$/s,
    )
    await page.close()
  })

  it('measures what Shift and a drag go over, or what a key says: how long, and how busy each stream is', async () => {
    const { page, timeline } = await opened(({ stream }) => {
      const [a, b] = [stream('first'), stream('second')]
      busy(a, 100_000)
      busy(b, 25_000)
      busy(a, 100_000)
    })
    const from = await placeOf(page, timeline, 'first', 0)
    const to = await placeOf(page, timeline, 'first', 100_000)
    await page.keyboard.down('Shift')
    await page.mouse.move(from.x, from.y)
    await page.mouse.down()
    await page.mouse.move(to.x, to.y, { steps: 4 })
    await page.mouse.up()
    await page.keyboard.up('Shift')
    await settled(page)
    const rows = async (): Promise<string[]> => page.locator('#range-rows tr').allInnerTexts()
    assert.match(await text(page, '#range-title'), /^Measured: (99|100)(\.\d)? µs, from .* to /)
    assert.match((await rows())[1] ?? '', /^second\t25 µs\t25 %$/)
    await press(page, 'Escape')
    assert.equal(await page.locator('#range').isVisible(), false)
    await press(page, ']', ']', 'm')
    const selected = timeline.operations.filter(({ stream }) => stream.name === 'first')[1]
    const point = (time = 0): string => `${Number((time / 1000).toFixed(3))} µs`
    assert.equal(
      await text(page, '#range-title'),
      `Measured: 100 µs, from ${point(selected?.start)} to ${point(selected?.end)}`,
    )
    assert.equal((await rows())[0], 'first\t100 µs\t100 %')
    await press(page, 'Shift+ArrowRight')
    assert.doesNotMatch(await text(page, '#range-title'), /^Measured: 100 µs/)
    await press(page, 'm')
    assert.equal(await page.locator('#range').isVisible(), false)
    await page.close()
  })

  it('tells times apart however deep it is zoomed', async () => {
    const { page } = await opened(({ stream }) => {
      const only = stream('only')
      for (let item = 0; item < 4; item += 1) busy(only, 1.5e9 + item)
    })
    await press(page, ']', ']', ']', ']')
    for (let zoom = 0; zoom < 60; zoom += 1) {
      await page.locator('#tracks').press('w')
      if (zoom % 6 !== 0) continue
      await settled(page)
      const axis = (await drawn(page)).filter(({ y }) => y > 18 && y < 28).map(({ text }) => text)
      assert.ok(axis.length > 2)
      assert.equal(new Set(axis).size, axis.length, axis.join(', '))
      const [from, to] = (await text(page, '#status')).split(' · ')[0]?.split(' to ') ?? []
      assert.notEqual(from, to)
    }
    const [base] = (await drawn(page)).filter(({ y }) => y < 12)
    assert.match(base?.text ?? '', /^from [34]\.\d+ s$/)
    await page.close()
  })

  it('shows a track that works 0.3 % of the time as one', async () => {
    const { page } = await opened(
      async ({ stream }) => {
        const [full, half, sparse] = [stream('full'), stream('half'), stream('sparse')]
        for (let item = 0; item < 5000; item += 1) {
          busy(full, 10_000)
          half.wait(full)
          sparse.wait(full)
          if (item % 2 === 0) busy(half, 10_000)
          busy(sparse, 30)
        }
      },
      { colorScheme: 'light' },
    )
    await page.locator('#critical').uncheck()
    await settled(page)
    const shown = {
      full: await filled(page, 'full'),
      half: await filled(page, 'half'),
      sparse: await filled(page, 'sparse'),
    }
    assert.ok(shown.full > 0.95, JSON.stringify(shown))
    assert.ok(shown.half > 0.4 && shown.half < 0.6, JSON.stringify(shown))
    assert.ok(shown.sparse > 0 && shown.sparse < 0.05, JSON.stringify(shown))
    await page.close()
  })

  it('counts the nodes of a graph once', async () => {
    const { page } = await opened(({ stream }) => {
      const own = stream('own')
      const graph = own.capture(() => {
        busy(own, 10_000)
        busy(own, 20_000)
      })
      const instance = graph.instantiate()
      for (let launch = 0; launch < 3; launch += 1) own.launch(instance)
      busy(own, 5000)
    })
    assert.match(await text(page, '#about'), /^4 operations · 6 nodes of graphs/)
    const names = (await page.locator('#names tr').allInnerTexts()).map((row) => row.replace(/\s+/g, ' '))
    assert.deepEqual(names, ['busy 7 95 µs 13.57 µs 20 µs'])
    await page.close()
  })

  it('has every name on one line', async () => {
    const name = `reduce<${'std::complex<float>, '.repeat(12)}>`
    const kernel = defineKernel({ name, source: '', signature: [], nanoseconds: 10_000, simulateGrid() {} })
    const { page } = await opened(({ stream }) => {
      const long = stream('a stream with a name that no label has room for, whatever one does')
      busy(long, 10_000)
      long.launch(kernel, { grid: 1, block: 1 })
      long.synchronize()
      busy(long, 10_000)
    })
    await press(page, ']', ']')
    const lines = await page.evaluate<number[]>(
      "[...document.querySelectorAll('#labels .track')].map((one) => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight))",
    )
    assert.ok(lines.length > 0 && lines.every((count) => Math.round(count) === 1), `${lines}`)
    for (const list of ['#names .pick', '#path .row', '#details h3', '#streams .row']) {
      const tall = await page.locator(list).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height))
      assert.ok(tall.length > 0 && Math.max(...tall) <= 44, `${list}: ${tall}`)
    }
    const written = (await drawn(page)).map(({ text }) => text)
    assert.ok(
      written.some((one) => one.startsWith('reduce<') && one.endsWith('…')),
      written.join(', '),
    )
    await page.close()
  })

  it('is read and used 390 pixels wide', async () => {
    const { page, timeline } = await opened(
      ({ stream }) => {
        const [a, b] = [stream('first'), stream('second')]
        for (let item = 0; item < 5; item += 1) {
          busy(a, 60_000)
          b.wait(a)
          busy(b, 20_000)
        }
      },
      { viewport: { width: 390, height: 844 }, hasTouch: true },
    )
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, 'nothing is wider')
    for (const part of ['#stalls .row', '#streams .row', '#measure', '#tracks', '#names']) {
      const box = await page.locator(part).first().boundingBox()
      assert.ok(box && box.x >= 0 && box.x + box.width <= 390, part)
    }
    const tops = await Promise.all(
      ['#area', '#verdict', '#details'].map(async (part) => (await page.locator(part).boundingBox())?.y ?? Number.NaN),
    )
    assert.deepEqual(
      tops,
      [...tops].sort((one, other) => one - other),
      'the chart comes first, then what it says',
    )
    const area = await page.locator('#area').boundingBox()
    assert.ok((area?.width ?? 0) > 250 && (area?.height ?? 0) > 200, JSON.stringify(area))
    await page.locator('#tracks').scrollIntoViewIfNeeded()
    const { x, y } = await placeOf(page, timeline, 'first', 30_000)
    await page.touchscreen.tap(x, y)
    assert.match(await text(page, '#details'), /^busy\s+kernel · first/)
    if (SCREENSHOTS !== undefined) await page.screenshot({ path: join(SCREENSHOTS, '9-narrow.png'), fullPage: true })
    await page.close()
  })

  it('is used by the keyboard where a mouse would be: other streams, causes, what is measured, what is folded', async () => {
    const { page } = await opened(({ stream }) => {
      const [a, b] = [stream('first'), stream('second')]
      busy(a, 60_000)
      b.wait(a)
      busy(b, 20_000)
      a.synchronize()
      busy(a, 10_000)
    })
    const details = (): Promise<string> => text(page, '#details')
    await press(page, ']')
    assert.match(await details(), /· first/)
    await press(page, 'ArrowDown')
    assert.match(await details(), /· second/)
    await press(page, 'ArrowUp')
    assert.match(await details(), /· first/)
    const reached = new Set<string>()
    await page.locator('#search').focus()
    for (let tab = 0; tab < 60; tab += 1) {
      await page.keyboard.press('Tab')
      reached.add(await page.evaluate<string>("document.activeElement.closest('[id]')?.id ?? ''"))
    }
    for (const id of [
      'critical',
      'measure',
      'fit',
      'theme',
      'findings',
      'streams',
      'stalls',
      'tracks',
      'gaps',
      'path',
      'names',
    ]) {
      assert.ok(reached.has(id), `${id} of ${[...reached]}`)
    }
    await page.locator('#findings summary').focus()
    await page.keyboard.press('Enter')
    assert.equal(await page.locator('#stalls').isVisible(), false)
    await page.close()
  })

  it('draws the same in a picture of a hundred thousand operations, which is small', async () => {
    const timeline = await hundredThousand()
    const picture = timeline.toSvg()
    assert.ok(picture.length < 300_000, `${picture.length} bytes`)
    const page = await browser.newPage({ viewport: VIEWPORT, colorScheme: 'light' })
    await page.setContent('<canvas width="1200" height="400"></canvas>')
    const bands = [...picture.matchAll(/<rect class="band" x="(\d+)" y="(\d+)" width="(\d+)"/g)].map((band) =>
      band.slice(1).map(Number),
    )
    const shares = await page.evaluate<number[]>(`(async () => {
      const image = new Image()
      image.src = 'data:image/svg+xml,' + encodeURIComponent(${JSON.stringify(picture)})
      await image.decode()
      const context = document.querySelector('canvas').getContext('2d')
      context.drawImage(image, 0, 0)
      return ${JSON.stringify(bands)}.map(([left, top, width]) => {
        const { data } = context.getImageData(left + 2, top, width - 4, 26)
        let blue = 0
        for (let at = 0; at < data.length; at += 4) if (data[at + 2] > data[at] + 60) blue += 1
        return blue / (data.length / 4)
      })
    })()`)
    const streams = timeline.summary.streams.filter(({ busy }) => busy > 0)
    assert.equal(shares.length, streams.length)
    for (const [place, { name, share }] of streams.entries()) {
      assert.ok(Math.abs((shares[place] ?? 0) - share) < 0.05, `${name}: ${shares[place]} of ${share}`)
    }
    await page.close()
  })
})

if (missing !== undefined) console.log(`# the page was not opened: ${missing}`)
