/**
 * The page in a real browser, with a hundred thousand operations: zoomed, searched, an arrow followed, by pointer and by
 * keyboard, in light and dark. CUDA_STREAMS_TEST_SCREENSHOTS names a directory for pictures of each step.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { Stream } from 'cuda-streams'
import { busy, simulate } from 'cuda-streams/sim'
import { nameStream, Timeline } from 'cuda-streams/timeline'
import type { Browser, Page } from 'playwright-core'

const OPERATIONS = 100_000
const SCREENSHOTS = process.env['CUDA_STREAMS_TEST_SCREENSHOTS']
const VIEWPORT = { width: 1440, height: 860 }

/** Where a Chromium is, or why there is none to test with. */
function findChromium(): { readonly path: string } | string {
  const named = process.env['CHROMIUM']
  const places = (process.env['PATH'] ?? '').split(delimiter)
  const names = ['chromium', 'chromium-browser', 'google-chrome']
  const path = named ?? names.flatMap((name) => places.map((place) => join(place, name))).find(existsSync)
  return path === undefined ? `no ${names.join(', ')} on the PATH` : { path }
}

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
const missing = typeof chromium === 'string' ? chromium : typeof playwright === 'string' ? playwright : undefined

describe('the page, in Chromium', { skip: missing, timeout: 120_000 }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-page-'))
  const problems: string[] = []
  let browser: Browser
  let page: Page

  before(async () => {
    assert.ok(typeof chromium !== 'string' && typeof playwright !== 'string')
    const path = join(directory, 'timeline.html')
    const timeline = await hundredThousand()
    assert.ok(timeline.operations.length >= OPERATIONS)
    await timeline.save(path)
    // The page asks for nothing that the sandbox guards, and CI runs as root.
    browser = await playwright.chromium.launch({ executablePath: chromium.path, args: ['--no-sandbox'] })
    page = await browser.newPage({ viewport: VIEWPORT, colorScheme: 'light' })
    page.on('console', (message) => problems.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('request', (request) => {
      if (!/^(file|data):/.test(request.url())) problems.push(`asks for ${request.url()}`)
    })
    await page.goto(pathToFileURL(path).href)
    await settled()
  })

  after(async () => {
    await browser?.close()
    rmSync(directory, { recursive: true, force: true })
  })

  /** Waits until nothing moves any more. */
  async function settled(): Promise<void> {
    let last = ''
    for (let same = 0; same < 3; ) {
      await page.waitForTimeout(60)
      const now = await status()
      same = now === last ? same + 1 : 0
      last = now
    }
  }
  const status = (): Promise<string> => page.locator('#status').innerText()
  const details = (): Promise<string> => page.locator('#details').innerText()
  const press = async (key: string): Promise<void> => {
    await page.locator('#lanes').press(key)
    await settled()
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
      const canvas = document.querySelector('#lanes')
      const copy = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
      copy.drawImage(canvas, -5, 5 - canvas.height)
      return String(copy.getImageData(0, 0, 1, 1).data)
    })()`)

  it('opens with everything in view', async () => {
    await picture('1-opened')
    assert.match(await page.locator('#about').innerText(), /^100,\d+ operations · .* · virtual time, exact$/)
    assert.match(await status(), /arrows: zoom in to see them$/)
    for (const name of ['upload', 'compute', 'download']) {
      assert.equal(await page.locator('#labels .lane', { hasText: name }).count(), 2)
    }
  })

  it('zooms by the wheel, around the pointer', async () => {
    const whole = await span()
    await page.mouse.move(700, 500)
    for (let turn = 0; turn < 12; turn += 1) await page.mouse.wheel(0, -240)
    await settled()
    await picture('2-zoomed')
    assert.ok((await span()) < whole / 100, `${await span()} of ${whole}`)
    assert.doesNotMatch(await status(), /arrows: zoom in/)
  })

  it('moves when dragged', async () => {
    const before = await status()
    await page.mouse.move(800, 300)
    await page.mouse.down()
    await page.mouse.move(500, 300, { steps: 5 })
    await page.mouse.up()
    await settled()
    assert.notEqual(await status(), before)
  })

  it('shows what is under the pointer, and what was clicked', async () => {
    const label = await page.locator('#labels .lane', { hasText: 'compute' }).first().boundingBox()
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
    await settled()
    assert.match(await details(), /^wait\s+wait · download/)
    await page.locator('#lanes').focus()
    await press('Enter')
    assert.match(await details(), /record · compute/)
    await picture('4-followed')
    await press(']')
    assert.match(await details(), /compute/)
    await press('Escape')
    assert.match(await details(), /^Point at a bar/)
  })

  it('finds by name, kind and stream, and says how many', async () => {
    await page.locator('#search').fill('busy upload')
    assert.equal(await page.locator('#found').innerText(), '12,500 found')
    await page.locator('#search').press('Enter')
    assert.equal(await page.locator('#found').innerText(), '1 of 12,500')
    await settled()
    await page.locator('#lanes').focus()
    await press('n')
    assert.equal(await page.locator('#found').innerText(), '2 of 12,500')
    await press('f')
    await picture('5-searched')
    await page.locator('#search').fill('synchronize device 1')
    assert.equal(await page.locator('#found').innerText(), '1 found')
    await page.locator('#search').fill('no such thing')
    assert.equal(await page.locator('#found').innerText(), '0 found')
    await page.locator('#search').press('Escape')
    assert.equal(await page.locator('#found').innerText(), '')
  })

  it('lists the idle gaps with what they waited for, and goes there', async () => {
    const first = page.locator('#gaps .row').first()
    assert.match(await first.innerText(), /µs.*(waits for|queued only after)/s)
    await first.click()
    await settled()
    await picture('6-gap')
    assert.match(await page.locator('#spoken').innerText(), /stood idle for/)
    assert.ok((await span()) < 5e6)
  })

  it('lists the critical path, and goes there', async () => {
    assert.match(await page.locator('#path-title').innerText(), /^Critical path \(.* of the time\)$/)
    await page.locator('#path .row').nth(3).click()
    await settled()
    assert.match(await details(), /busy/)
  })

  it('is used by the keyboard alone', async () => {
    await page.locator('#lanes').focus()
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
    await settled()
    const dark = await background()
    assert.notDeepEqual(light, dark)
    await picture('8-dark')
    await page.locator('#theme').click()
    await settled()
    assert.deepEqual(await background(), light, 'told to be light')
    await page.locator('#theme').click()
    await page.emulateMedia({ colorScheme: 'light' })
    await settled()
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
    await settled()
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

if (missing !== undefined) console.log(`# the page was not opened: ${missing}`)
