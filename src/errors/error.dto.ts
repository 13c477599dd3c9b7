import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ERRORS } from './error-code.ts';

/** The body of every response from 400 on (docs/interface.md, section 7). */
@ApiSchema({ name: 'Error', description: 'Why a request was refused or failed.' })
export class ErrorBody {
  @ApiProperty({
    type: 'string',
    examples: Object.keys(ERRORS),
    description: 'The failure, for programs. A code keeps its meaning; new codes may come.',
  })
  code!: string;

  @ApiProperty({
    type: 'string',
    minLength: 1,
    description: 'The failure, for people. The wording may change.',
    example: ERRORS.not_found.message,
  })
  message!: string;

  @ApiProperty({
    type: 'integer',
    minimum: 400,
    maximum: 599,
    description: 'The HTTP status of the response.',
    example: ERRORS.not_found.status,
  })
  status!: number;
}
