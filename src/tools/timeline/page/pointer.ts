/** Wheel, drag, hover and click on the bands. Two fingers zoom, and Shift with a drag measures. */

import { NOTHING, type PageLayout, type Picked, pick } from './bands.js'
import { AXIS } from './draw.js'
import type { View } from './view.js'

export interface PointerActions {
  readonly select: (row: number) => void
  readonly hover: (x: number, y: number, picked: Picked) => void
  readonly scrollBy: (pixels: number) => void
  readonly zoomToSelection: () => void
  /** The interval that is measured, whose ends can be moved. */
  readonly range: () => { readonly from: number; readonly to: number } | undefined
  readonly measure: (from: number, to: number) => void
}

/** The pixels by which the pointer may move during a click. */
const STILL = 3
/** The pixels within which a mouse or a finger must be of an end of the measured interval to move it. */
const HANDLE = 6
const TOUCHED_HANDLE = 18
const LINE = 16
const ZOOM_PER_PIXEL = 0.0022

interface Place {
  readonly x: number
  readonly y: number
}

export function listenToPointer(
  canvas: HTMLCanvasElement,
  view: View,
  layout: PageLayout,
  actions: PointerActions,
): void {
  /** The place where the drag began; `fixed` is the end of the measured interval that stays. */
  let dragging: { readonly from: Place; readonly fixed: number | undefined; moved: boolean } | undefined
  const down = new Map<number, Place>()
  const placeIn = (event: MouseEvent): Place => {
    const box = canvas.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const at = ({ x, y }: Place): Picked => (y < AXIS ? NOTHING : pick(layout, view, x, y - AXIS))
  const fixedEnd = ({ x }: Place, { shiftKey, pointerType }: PointerEvent): number | undefined => {
    const range = actions.range()
    const near = pointerType === 'touch' ? TOUCHED_HANDLE : HANDLE
    if (range !== undefined && Math.abs(view.xOf(range.from) - x) <= near) return range.to
    if (range !== undefined && Math.abs(view.xOf(range.to) - x) <= near) return range.from
    return shiftKey ? view.timeAt(x) : undefined
  }
  const end = (event: PointerEvent): void => {
    down.delete(event.pointerId)
    dragging = undefined
    canvas.classList.remove('dragging')
  }
  /** Zooms by the distance of two fingers. */
  const pinch = (id: number, to: Place): void => {
    const [other] = [...down].filter(([pointer]) => pointer !== id).map(([, place]) => place)
    const from = down.get(id)
    if (from === undefined || other === undefined) return
    const before = Math.max(8, Math.abs(from.x - other.x))
    view.zoom(Math.max(8, Math.abs(to.x - other.x)) / before, view.timeAt((from.x + other.x) / 2))
    if (dragging !== undefined) dragging.moved = true
  }

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    canvas.setPointerCapture(event.pointerId)
    const place = placeIn(event)
    down.set(event.pointerId, place)
    dragging = { from: place, fixed: down.size > 1 ? undefined : fixedEnd(place, event), moved: false }
  })
  canvas.addEventListener('pointermove', (event) => {
    const to = placeIn(event)
    const last = down.get(event.pointerId)
    if (dragging === undefined || last === undefined) {
      actions.hover(to.x, to.y, at(to))
      return
    }
    if (Math.abs(to.x - dragging.from.x) + Math.abs(to.y - dragging.from.y) > STILL) dragging.moved = true
    if (down.size > 1) pinch(event.pointerId, to)
    else if (dragging.moved && dragging.fixed !== undefined) {
      const time = view.timeAt(to.x)
      actions.measure(Math.min(dragging.fixed, time), Math.max(dragging.fixed, time))
    } else if (dragging.moved) {
      canvas.classList.add('dragging')
      view.pan((last.x - to.x) * view.perPixel)
      actions.scrollBy(last.y - to.y)
    }
    if (dragging.moved) actions.hover(0, 0, NOTHING)
    down.set(event.pointerId, to)
  })
  canvas.addEventListener('pointerup', (event) => {
    if (dragging?.moved === false) actions.select(at(placeIn(event)).row)
    end(event)
  })
  canvas.addEventListener('pointercancel', end)
  canvas.addEventListener('pointerleave', () => actions.hover(0, 0, NOTHING))
  canvas.addEventListener('dblclick', actions.zoomToSelection)
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault()
      const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1
      const { deltaX, deltaY, shiftKey, altKey } = event
      if (altKey) actions.scrollBy(deltaY * pixels)
      else if (shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) view.pan((deltaX || deltaY) * pixels * view.perPixel)
      else view.zoom(Math.exp(-deltaY * pixels * ZOOM_PER_PIXEL), view.timeAt(placeIn(event).x))
      actions.hover(0, 0, NOTHING)
    },
    { passive: false },
  )
}
