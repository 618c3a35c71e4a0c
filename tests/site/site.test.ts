/**
 * The built site in a real browser, from a plain server of static files: nothing complains, nothing is asked of another host, it
 * can be searched, it is readable in light and dark, at 1440 and at 390 pixels, and axe finds nothing against it.
 * CUDA_STREAMS_TEST_SCREENSHOTS names a directory for pictures of each page.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { pathToFileURL } from 'node:url'
import { Stream } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import type { Browser, Frame, Page } from 'playwright-core'
import { findChromium, NO_CHROMIUM } from '../helpers/chromium.js'
import { byEffort } from '../helpers/effort.js'
import { root } from '../helpers/root.js'
import { filesOf, serve, site, siteUnavailable } from './built-site.js'

const SCREENSHOTS = process.env['CUDA_STREAMS_TEST_SCREENSHOTS']
const WIDTHS = [1440, 390] as const
const SCHEMES = ['light', 'dark'] as const

/** One page of each kind: the front, guides with code, tables and pictures, the reference. */
const PAGES = [
  'index.html',
  'contents.html',
  'tutorials/first-stream.html',
  'guides/coming-from.html',
  'guides/timeline.html',
  'internals/guarantees.html',
  'internals/cuda-facts.html',
  'examples/pipeline.html',
  'changelog.html',
  'reference/index.html',
  'reference/cuda-streams/index.html',
  'reference/cuda-streams/classes/Stream.html',
  'reference/cuda-streams/functions/defineKernel.html',
  'reference/cuda-streams/sim/interfaces/SimulationOptions.html',
]

/** Each page in both colours and both widths; of the four together two, by turns, and all at night. */
function isPlayed(nth: number, scheme: (typeof SCHEMES)[number], width: (typeof WIDTHS)[number]): boolean {
  const isTurn = (nth + SCHEMES.indexOf(scheme) + WIDTHS.indexOf(width)) % 2 === 0
  return isTurn || byEffort({ quick: false, normal: false, nightly: true })
}

function findAxe(): string | undefined {
  try {
    return createRequire(join(root, 'site', 'package.json')).resolve('axe-core/axe.min.js')
  } catch {
    return undefined
  }
}

async function openPlaywright(): Promise<typeof import('playwright-core') | undefined> {
  try {
    return await import('playwright-core')
  } catch {
    return undefined
  }
}

const chromium = findChromium()
const axe = findAxe()
const playwright = await openPlaywright()
const missing =
  chromium === undefined
    ? NO_CHROMIUM
    : playwright === undefined
      ? 'no playwright-core here'
      : axe === undefined
        ? 'no axe-core in site/node_modules: `npm run site` installs it'
        : siteUnavailable()
if (missing !== undefined) console.log(`skipped: ${missing}`)

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

describe('the site, in Chromium', { skip: missing ?? false, timeout: 1_800_000 }, () => {
  const problems: string[] = []
  let browser: Browser
  let server: Server
  let address: string

  before(async () => {
    assert.ok(chromium !== undefined && playwright !== undefined)
    ;({ server, address } = await serve(site))
    // The site asks for nothing that the sandbox guards, and CI runs as root.
    browser = await playwright.chromium.launch({ executablePath: chromium, args: ['--no-sandbox'] })
  })

  after(async () => {
    await browser?.close()
    server?.close()
  })

  /** What is drawn answers to keys and clicks only when its program has it: Vue says so on the element that it is mounted on. */
  const alive = (page: Page): Promise<unknown> =>
    page.waitForFunction('document.querySelector("#app")?.__vue_app__ !== undefined')

  async function open(path: string, width: number, colorScheme: 'light' | 'dark'): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 860 }, colorScheme })
    page.on('console', (message) => problems.push(`${path}: ${message.type()}: ${message.text()}`))
    page.on('pageerror', (error) => problems.push(`${path}: ${error.message}`))
    page.on('request', (request) => {
      const url = request.url()
      if (!url.startsWith(address) && !url.startsWith('data:')) problems.push(`${path} asks for ${url}`)
    })
    await page.goto(`${address}/${path}`, { waitUntil: 'networkidle' })
    await alive(page)
    return page
  }

  /** How many pixels stick out to the right. */
  const overhang = (page: Page): Promise<number> =>
    page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

  /** What fades in has its contrast when it has faded in, which begins two frames after it is there. */
  const atRest = (page: Page | Frame): Promise<void> =>
    page.evaluate(`(async () => {
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
      await frame().then(frame)
      for (let moving; (moving = document.getAnimations()).length > 0; await frame().then(frame))
        await Promise.allSettled(moving.map(({ finished }) => finished))
    })()`)

  async function violationsOf(page: Page | Frame, except: readonly string[] = []): Promise<readonly string[]> {
    assert.ok(axe !== undefined)
    await atRest(page)
    await page.addScriptTag({ path: axe })
    const rules = Object.fromEntries(except.map((rule) => [rule, { enabled: false }]))
    const found = await page.evaluate<readonly Violation[]>(
      `axe.run(document, ${JSON.stringify({ rules, resultTypes: ['violations'] })}).then(({ violations }) => violations)`,
    )
    return found.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html} ${node.failureSummary ?? ''}`))
  }

  for (const [nth, path] of PAGES.entries()) {
    for (const scheme of SCHEMES) {
      for (const width of WIDTHS) {
        if (!isPlayed(nth, scheme, width)) continue
        it(`${path}, ${scheme}, ${width} pixels wide`, async () => {
          const page = await open(path, width, scheme)
          try {
            if (SCREENSHOTS !== undefined) {
              const name = `${path.replace(/\W/g, '-')}-${scheme}-${width}.png`
              await page.screenshot({ path: join(SCREENSHOTS, name) })
            }
            assert.equal(await page.evaluate('document.documentElement.classList.contains("dark")'), scheme === 'dark')
            assert.equal(await overhang(page), 0, 'it scrolls sideways')
            assert.deepEqual(await violationsOf(page), [])
            assert.deepEqual(problems.splice(0), [])
          } finally {
            await page.close()
          }
        })
      }
    }
  }

  /** Pictures whose letters are smaller than they were drawn, and a page wider than its window. */
  const misfits = (page: Page): Promise<readonly string[]> =>
    page.evaluate<readonly string[]>(`(() => {
      const { scrollWidth, clientWidth } = document.documentElement
      const small = [...document.querySelectorAll('main img')].filter((img) => img.clientWidth < 0.9 * img.naturalWidth)
      return [...(scrollWidth > clientWidth ? ['it scrolls sideways'] : []), ...small.map((img) => 'too small: ' + img.src)]
    })()`)

  it('at 390 pixels no page scrolls sideways, and pictures have the size of their letters', async () => {
    const page = await browser.newPage({ viewport: { width: 390, height: 860 } })
    const found: string[] = []
    for (const path of filesOf().filter(
      (name) => name.endsWith('.html') && !/^(?:playground|reference)\//.test(name),
    )) {
      await page.goto(`${address}/${path}`)
      found.push(...(await misfits(page)).map((what) => `${path}: ${what}`))
    }
    await page.close()
    assert.deepEqual(found, [])
  })

  async function using(path: string, width: number, act: (page: Page) => Promise<void>): Promise<void> {
    const page = await open(path, width, 'light')
    try {
      await act(page)
      assert.deepEqual(problems.splice(0), [])
    } finally {
      await page.close()
    }
  }

  it('searches find pages, by keyboard alone, each from the page that the one before has found', () =>
    using('contents.html', 1440, async (page) => {
      for (const [words, found] of [
        ['launchHostFunc', /launchHostFunc/],
        ['null stream', /null stream/],
        ['CUDA_STREAMS_RELEASE_THRESHOLD', /release_?threshold/i],
        ['out of memory', /out of memory/i],
        ['f16', /f16/],
        ['jest', /jest/i],
        ['struct', /struct/],
        ['docker', /docker/i],
      ] as const) {
        const before = page.url()
        await page.keyboard.press('Control+k')
        const input = page.locator('.VPLocalSearchBox input')
        await input.fill(words)
        await page.locator('.VPLocalSearchBox .result', { hasText: found }).first().waitFor()
        await page.keyboard.press('Enter')
        await page.waitForURL((url) => url.href !== before)
        await input.waitFor({ state: 'detached' })
        await page.locator('main').filter({ hasText: found }).waitFor()
      }
    }))

  it('the search box ranks as search.test.ts says: what teaches comes first, also by words that the page does not have', () =>
    using('contents.html', 1440, async (page) => {
      await page.keyboard.press('Control+k')
      for (const [words, first] of [
        ['how do I run without a GPU', '/guides/testing.html'],
        ['cuda graph', '/concepts/graphs.html'],
        ['deadlock callback', '/look-up/errors.html'],
      ] as const) {
        await page.locator('.VPLocalSearchBox input').fill(words)
        await page.locator(`.VPLocalSearchBox #localsearch-item-0 a[href^="${first}"]`).waitFor()
      }
    }))

  // The list of results is the generator's: its options have links inside, and names that leave out the excerpts.
  const OF_SEARCH = ['nested-interactive', 'label-content-name-mismatch']

  it('the open search has nothing else that axe finds, and words that are nowhere find nothing', () =>
    using('tutorials/first-stream.html', 1440, async (page) => {
      await page.locator('.DocSearch-Button').click()
      await page.locator('.VPLocalSearchBox input').fill('launch')
      await page.locator('.VPLocalSearchBox .result').first().waitFor()
      assert.deepEqual(await violationsOf(page, OF_SEARCH), [])
      await page.locator('.VPLocalSearchBox input').fill('xyzzyqux')
      await page.locator('.VPLocalSearchBox .no-results').waitFor()
    }))

  it('the switch makes it dark, which another page and the next visit keep', () =>
    using('tutorials/first-stream.html', 1440, async (page) => {
      const isDark = (): Promise<boolean> => page.evaluate('document.documentElement.classList.contains("dark")')
      const background = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor')
      const light = await background()
      await page.locator('.VPNavBarAppearance button').click()
      assert.ok(await isDark())
      assert.notEqual(await background(), light)
      await page.locator('.VPSidebar').getByText('Memory', { exact: true }).click()
      await page.waitForURL('**/memory.html')
      assert.ok(await isDark())
      await page.reload({ waitUntil: 'networkidle' })
      await alive(page)
      assert.ok(await isDark())
    }))

  it('the home page has a program, its kernel and its result in one screen; one click finds a race, another one fixes it', () =>
    using('index.html', 1440, async (page) => {
      if (!existsSync(join(site, 'playground'))) return
      await page.setViewportSize({ width: 1440, height: 900 })
      const frame = page.frameLocator('iframe')
      await frame.locator('#console').filter({ hasText: '[ 15, 26, 37, 48 ]' }).waitFor()
      for (const [place, text] of [
        ['#editor .cm-line', 'compute.download'],
        ['#kernel-editor .cm-line', 'y[i] = a * x[i] + y[i]'],
        ['#console pre', 'Float32Array'],
        ['#drawing #area', ''],
      ] as const) {
        const box = await frame.locator(place).filter({ hasText: text }).first().boundingBox()
        assert.ok(
          box !== null && box.y > 0 && box.y + Math.min(box.height, 100) <= 900,
          `${place} ${JSON.stringify(box)}`,
        )
      }
      const [, inner] = page.frames()
      assert.ok(inner)
      assert.deepEqual(await violationsOf(inner), [])
      await frame.getByRole('button', { name: 'Leave out the wait' }).click()
      await frame.locator('#findings').filter({ hasText: 'Race: nothing orders two accesses' }).waitFor()
      assert.equal(await frame.locator('#editor .cm-line.marked').count(), 2)
      await frame.locator('.finding .insert').click()
      await frame.locator('#status').filter({ hasText: 'Fixed' }).waitFor()
    }))

  it('the program on the home page runs when it comes into view; until then nothing of the library is loaded', async () => {
    if (!existsSync(join(site, 'playground'))) return
    const page = await browser.newPage({ viewport: { width: 390, height: 400 } })
    const loaded: string[] = []
    page.on('request', (request) => void loaded.push(request.url()))
    await page.goto(`${address}/index.html`, { waitUntil: 'networkidle' })
    const frame = page.frameLocator('iframe')
    await frame.locator('#status').filter({ hasText: 'Ready' }).waitFor({ state: 'attached' })
    const ofLibrary = (): readonly string[] => loaded.filter((url) => url.endsWith('/stack.js'))
    assert.deepEqual(ofLibrary(), [])
    await frame.locator('#program').scrollIntoViewIfNeeded()
    await frame.locator('#console').filter({ hasText: '[ 15, 26, 37, 48 ]' }).waitFor({ state: 'attached' })
    assert.notDeepEqual(ofLibrary(), [])
    await page.close()
  })

  it('the playground on the home page has the colours of the site', () =>
    using('index.html', 1440, async (page) => {
      if (!existsSync(join(site, 'playground'))) return
      const frame = page.frameLocator('iframe')
      await frame.locator('.at-home').waitFor()
      await page.locator('.VPNavBarAppearance button').click()
      await frame.locator('html[style*="color-scheme: dark"]').waitFor()
    }))

  it('the playground, where there is one, is a click away and leads back', () =>
    using('tutorials/first-stream.html', 1440, async (page) => {
      if (!existsSync(join(site, 'playground'))) return assert.equal(await page.getByText('Playground').count(), 0)
      await page.locator('.VPNavBarMenu').getByText('Playground').click()
      await page.waitForURL('**/playground/')
      await page.getByRole('link', { name: 'cuda-streams' }).click()
      await page.waitForURL((url) => url.pathname === '/')
    }))

  it('the first stop of the keyboard leads to the content', () =>
    using('concepts/memory.html', 1440, async (page) => {
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await page.waitForURL((url) => url.hash === '#VPContent')
    }))

  it('at 390 pixels the menus open, without anything that axe finds', () =>
    using('concepts/memory.html', 390, async (page) => {
      await page.locator('.VPNavBarHamburger').click()
      await page.locator('.VPNavScreen').getByText('Reference').waitFor()
      assert.deepEqual(await violationsOf(page), [])
      await page.locator('.VPNavBarHamburger').click()
      await page.locator('.VPLocalNav .menu').click()
      await page.locator('.VPSidebar').getByText('Graphs', { exact: true }).click()
      await page.waitForURL('**/graphs.html')
      assert.equal(await overhang(page), 0)
    }))

  it("a timeline's page has nothing that axe finds", async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-axe-'))
    try {
      using simulation = simulate()
      const [device] = simulation.devices
      assert.ok(device)
      const [copies, work] = [new Stream({ device }), new Stream({ device })]
      const [memory, bytes] = [device.alloc(2 ** 20), device.allocPinned(2 ** 20)]
      const timeline = await Timeline.record(async () => {
        for (let round = 0; round < 4; round += 1) {
          copies.copy(memory, bytes)
          work.wait(copies)
          work.fill(memory, round)
          copies.wait(work)
        }
        await device.finished()
      })
      const path = join(folder, 'timeline.html')
      await timeline.save(path)
      for (const width of WIDTHS) {
        for (const colorScheme of SCHEMES) {
          const page = await browser.newPage({ viewport: { width, height: 860 }, colorScheme })
          await page.goto(pathToFileURL(path).href)
          assert.deepEqual(await violationsOf(page), [], `${width} ${colorScheme}`)
          await page.close()
        }
      }
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('an address that is no page says so', async () => {
    const page = await open('no-such-page.html', 390, 'dark')
    assert.match(await page.locator('main').innerText(), /There is no such page/)
    assert.deepEqual(await violationsOf(page), [])
    assert.match(problems.splice(0).join(), /^no-such-page.html: error: Failed to load resource: .*404[^,]*$/)
    await page.close()
  })
})
