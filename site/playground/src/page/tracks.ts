/** The streams of a run, drawn as a timeline's page draws them, and the state of each at one time. */

import { isHostOnly, isInstant } from '../../../../src/tools/timeline/kinds.js'
import { layOut } from '../../../../src/tools/timeline/page/bands.js'
import {
  type Data,
  dataOf,
  formatPoint,
  Gaps,
  placeOf,
  timeOf,
  titleOf,
  trackName,
} from '../../../../src/tools/timeline/page/data.js'
import { Arrows, AXIS, type Colours, type Highlights, Painter } from '../../../../src/tools/timeline/page/draw.js'
import { byId, element, listStalls, showDetails } from '../../../../src/tools/timeline/page/panel.js'
import { listenToPointer } from '../../../../src/tools/timeline/page/pointer.js'
import { View } from '../../../../src/tools/timeline/page/view.js'
import type { PageData } from '../../../../src/tools/timeline/page-format.js'

const STEPS = 1000
const MOST_HEIGHT = 420

export class Tracks {
  #colours: Colours = () => ''
  #restyle = (): void => {}
  #resize = (): void => {}
  #end = new AbortController()

  constructor(
    /** Of what is selected: the line that queued it. */
    private readonly showLine: (line: number) => void,
  ) {
    new ResizeObserver(() => this.#resize()).observe(byId('area', HTMLElement))
  }

  restyle(colours: Colours): void {
    this.#colours = colours
    this.#restyle()
  }

  clear(): void {
    byId('drawing', HTMLElement).hidden = true
    byId('no-tracks', HTMLElement).hidden = false
  }

  show(page: PageData): void {
    this.#end.abort()
    this.#end = new AbortController()
    const { signal } = this.#end
    const data = dataOf(page)
    byId('drawing', HTMLElement).hidden = false
    byId('no-tracks', HTMLElement).hidden = true
    const area = byId('area', HTMLElement)
    const labels = byId('labels', HTMLElement)
    const playhead = byId('playhead', HTMLElement)
    const slider = byId('time', HTMLInputElement)
    const canvas = element('canvas', { tabIndex: 0, className: 'tracks' })
    canvas.setAttribute('role', 'application')
    canvas.setAttribute('aria-label', 'Tracks of the streams. Arrows left and right move in time, plus and minus zoom.')
    byId('canvas-place', HTMLElement).replaceChildren(canvas)
    const layout = layOut(data)
    const gaps = new Gaps(data)
    const highlights: Highlights = {
      selected: -1,
      hovered: -1,
      matches: undefined,
      matchesBefore: new Map(),
      showCritical: true,
      gaps: new Map(),
      gap: -1,
      range: undefined,
    }
    let asked = false
    let time = data.duration
    const height = Math.min(layout.height + AXIS, MOST_HEIGHT)
    area.style.height = `${height}px`
    const redraw = (): void => {
      if (asked) return
      asked = true
      requestAnimationFrame(() => {
        asked = false
        if (!signal.aborted) paint()
      })
    }
    const view = new View(data.duration, redraw)
    const painter = new Painter(canvas, data, layout, new Arrows(data, layout), view, highlights)
    const paint = (): void => {
      painter.draw(height, devicePixelRatio)
      labels.style.transform = `translateY(${AXIS - view.scroll}px)`
      const x = view.xOf(time)
      playhead.hidden = x < 0 || x > view.width
      playhead.style.transform = `translateX(${x}px)`
    }
    this.#resize = () => {
      view.width = Math.max(1, area.clientWidth)
      canvas.width = Math.round(view.width * devicePixelRatio)
      canvas.height = Math.round(height * devicePixelRatio)
      redraw()
    }
    this.#restyle = () => {
      painter.restyle(this.#colours)
      redraw()
    }
    const scrollTo = (to: number): void => {
      view.scroll = Math.max(0, Math.min(to, layout.height + AXIS - height))
      redraw()
    }
    const select = (row: number): void => {
      highlights.selected = row
      showDetails(data, row, select)
      const line = /:(\d+):\d+$/.exec(data.sites[data.site[row] ?? 0] ?? '')?.[1]
      if (row >= 0 && line !== undefined) this.showLine(Number(line))
      redraw()
    }
    const setTime = (to: number): void => {
      time = Math.max(0, Math.min(to, data.duration))
      slider.value = String(Math.round((time / Math.max(1, data.duration)) * STEPS))
      const text = formatPoint(time)
      byId('at', HTMLOutputElement).value = text
      slider.setAttribute('aria-valuetext', text)
      showStates(data, time)
      redraw()
    }
    listenToPointer(canvas, view, layout, {
      select,
      hover(_x, _y, { row }) {
        if (row === highlights.hovered) return
        highlights.hovered = row
        canvas.title =
          row < 0 ? '' : `${titleOf(data, row)} · ${placeOf(data, row)} · at ${formatPoint(timeOf(data, row))}`
        redraw()
      },
      scrollBy: (pixels) => scrollTo(view.scroll + pixels),
      zoomToSelection: () => view.fit(),
      range: () => undefined,
      measure: () => {},
    })
    const span = (): number => view.end - view.begin
    const keys: Readonly<Record<string, () => void>> = {
      ArrowLeft: () => view.pan(-span() * 0.15),
      ArrowRight: () => view.pan(span() * 0.15),
      '+': () => view.zoom(1.5, time),
      '=': () => view.zoom(1.5, time),
      '-': () => view.zoom(1 / 1.5, time),
      f: () => view.fit(),
    }
    canvas.addEventListener('keydown', (event) => {
      const action = keys[event.key]
      if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      action()
    })
    slider.max = String(STEPS)
    slider.addEventListener('input', () => setTime((Number(slider.value) / STEPS) * data.duration), { signal })
    playhead.addEventListener('pointerdown', (event) => playhead.setPointerCapture(event.pointerId), { signal })
    playhead.addEventListener(
      'pointermove',
      (event) => {
        if (playhead.hasPointerCapture(event.pointerId))
          setTime(view.timeAt(event.clientX - area.getBoundingClientRect().left))
      },
      { signal },
    )
    labels.replaceChildren()
    const label = (text: string, className: string, y: number, tall: number): void => {
      const made = element('div', { className, title: text }, text)
      made.style.top = `${y}px`
      made.style.lineHeight = `${tall}px`
      labels.append(made)
    }
    for (const { text, y } of layout.headings) label(text.replace(/ · .*/, ''), 'heading', y, 28)
    for (const band of layout.bands) if (band.label !== '') label(band.label, 'track', band.y, band.height)
    byId('stalls', HTMLElement).replaceChildren()
    let marked = -1
    const showMarked = listStalls(data, (place) => {
      marked = place === marked ? -1 : place
      highlights.gaps = marked < 0 ? new Map() : gaps.bars(gaps.of(marked))
      showMarked(marked)
      redraw()
    })
    showDetails(data, -1, select)
    this.#resize()
    view.fit(false)
    this.#restyle()
    setTime(data.duration)
  }
}

/** What each stream does at a time: the host has queued so much, and so much is done. */
function showStates(data: Data, time: number): void {
  const rows = byId('state-rows', HTMLElement)
  rows.replaceChildren()
  for (const track of data.tracks.keys()) {
    let all = 0
    let done = 0
    let queued = 0
    let now = ''
    for (let row = 0; row < data.length; row += 1) {
      const kind = data.kind[row] ?? 0
      if (data.track[row] !== track || isHostOnly(kind) || data.parent[row] !== -1 || isInstant(kind)) continue
      const [called, start, end] = [data.called[row] ?? 0, data.start[row] ?? Number.NaN, data.end[row] ?? Number.NaN]
      all += 1
      if (end <= time) done += 1
      else if (called <= time) queued += 1
      if (start <= time && !(end <= time)) now = titleOf(data, row)
    }
    if (all === 0) continue
    const state = now !== '' ? now : queued > 0 ? 'waits' : done === all ? 'is done' : 'has nothing to do'
    rows.append(
      element(
        'tr',
        {},
        element('th', { scope: 'row' }, trackName(data, track)),
        element('td', {}, state),
        element('td', {}, `${done} of ${all}`),
        element('td', {}, String(queued)),
      ),
    )
  }
}
