import { ApiExtension } from '@nestjs/swagger';

/** Section 9 of the specification: an operation without this marker is stable. */
export function Stability(level: 'experimental' | 'beta'): MethodDecorator {
  return ApiExtension('x-stability', level);
}
