/** Wheel, drag, hover and click on the lanes. */
import { AXIS } from './draw.js'
import type { PageLayout } from './layout.js'
import { pick } from './pick.js'
import type { View } from './view.js'

export interface PointerActions {
  readonly select: (row: number) => void
  /** The row under the pointer; no row is -1. */
  readonly hover: (x: number, y: number, row: number) => void
  readonly scrollBy: (pixels: number) => void
  readonly zoomToSelection: () => void
}

/** Pixels that a click may wander. */
const STILL = 3
const LINE = 16
const ZOOM_PER_PIXEL = 0.0022

export function listenToPointer(
  canvas: HTMLCanvasElement,
  view: View,
  layout: PageLayout,
  actions: PointerActions,
): void {
  let dragging: { readonly x: number; readonly y: number; moved: boolean } | undefined
  let last = { x: 0, y: 0 }
  const placeIn = (event: MouseEvent): { x: number; y: number } => {
    const box = canvas.getBoundingClientRect()
    return { x: event.clientX - box.left, y: event.clientY - box.top }
  }
  const rowAt = ({ x, y }: { x: number; y: number }): number => (y < AXIS ? -1 : pick(layout, view, x, y - AXIS))

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return
    canvas.setPointerCapture(event.pointerId)
    last = placeIn(event)
    dragging = { ...last, moved: false }
  })
  canvas.addEventListener('pointermove', (event) => {
    const at = placeIn(event)
    if (dragging === undefined) {
      actions.hover(at.x, at.y, rowAt(at))
      return
    }
    if (Math.abs(at.x - dragging.x) + Math.abs(at.y - dragging.y) > STILL) dragging.moved = true
    if (dragging.moved) {
      canvas.classList.add('dragging')
      view.pan((last.x - at.x) * view.perPixel)
      actions.scrollBy(last.y - at.y)
      actions.hover(0, 0, -1)
    }
    last = at
  })
  canvas.addEventListener('pointerup', (event) => {
    if (dragging?.moved === false) actions.select(rowAt(placeIn(event)))
    dragging = undefined
    canvas.classList.remove('dragging')
  })
  canvas.addEventListener('pointercancel', () => {
    dragging = undefined
    canvas.classList.remove('dragging')
  })
  canvas.addEventListener('pointerleave', () => actions.hover(0, 0, -1))
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
      actions.hover(0, 0, -1)
    },
    { passive: false },
  )
}
