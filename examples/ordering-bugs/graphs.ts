/** Waits that are lost in a captured graph, or around its launches. */
import { bug, type OrderingBug, read, scale, set } from './scene.js'

export const graphs: readonly OrderingBug[] = [
  bug(
    {
      name: 'wait lost in a capture',
      story: 'Two branches of a captured graph meet only at its end, after the kernel that needs them both.',
      missing: 'main.wait(side) before the kernel, inside the capture',
    },
    async ({ stream, zeros }, fixed) => {
      const [main, side] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      const graph = main.capture(() => {
        side.wait(main.record())
        set(side, data, 2)
        if (fixed) main.wait(side.record())
        scale(main, result, data, 50)
        main.wait(side.record())
      })
      graph.instantiate().launch(main)
      return read(main, result)
    },
  ),

  bug(
    {
      name: 'graph launched again too early',
      story: 'A graph is launched again on another stream while the output of its first launch is still read.',
      missing: 'second.wait(reader) before the second launch',
    },
    async ({ stream, zeros }, fixed) => {
      const [first, second, reader] = [stream(), stream(), stream()]
      const [input, output, kept] = [zeros(), zeros(), zeros()]
      const exec = first.capture(() => scale(first, output, input, 3)).instantiate()
      set(first, input, 1)
      first.launch(exec)
      reader.wait(first)
      reader.copy(kept, output)
      second.wait(first)
      if (fixed) second.wait(reader)
      set(second, input, 2)
      second.launch(exec)
      return read(reader, kept)
    },
  ),

  bug(
    {
      name: 'external event recorded too early',
      story: 'A graph records an event for a stream outside, but before the kernel that writes what that stream reads.',
      missing: 'the external record after the kernel, inside the capture',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [inside, outside] = [stream(), stream()]
      const [input, output, kept] = [zeros(), zeros(), zeros()]
      const ready = device.createEvent()
      set(inside, input, 4)
      const graph = inside.capture(() => {
        if (!fixed) inside.record(ready, { external: true })
        scale(inside, output, input, 2)
        if (fixed) inside.record(ready, { external: true })
      })
      graph.instantiate().launch(inside)
      outside.wait(ready)
      outside.copy(kept, output)
      return read(outside, kept)
    },
  ),

  bug(
    {
      name: 'input of a graph refilled',
      story: 'The input of the next launch is filled on another stream, while the launch before may still read it.',
      missing: 'uploads.wait(compute) before the input is filled again',
    },
    async ({ stream, zeros }, fixed) => {
      const [uploads, compute] = [stream(), stream()]
      const [input, output] = [zeros(), zeros()]
      const exec = compute.capture(() => scale(compute, output, input, 7)).instantiate()
      set(uploads, input, 1)
      compute.wait(uploads)
      compute.launch(exec)
      if (fixed) uploads.wait(compute)
      set(uploads, input, 2)
      return read(compute, output)
    },
  ),
]
